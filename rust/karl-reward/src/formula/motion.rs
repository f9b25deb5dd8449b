//! The signals of a plan that was followed, and of forward motion; v2 alone has them.
//!
//! ```text
//! consistency = .6 (writes of a file read before / writes) + .4 max(0, 1 - .2 files written three times or more)
//! motion      = exp(-.15 (2 stuck + 1.5 loops + undone + 3 idle))
//!
//! stuck  = runs of three calls or more of one tool with a failure among them
//! loops  = failed calls of Bash right after a failed call of Bash
//! undone = writes of a file right after a write of it
//! idle   = reads of files that are never written / reads
//! ```
//!
//! The first share is .5 without writes. Consistency is .6 and motion .8 where the total is below 3.

use super::measures::{MeasuresV2, Waste, Writes};
use crate::python_arithmetic::larger;
use crate::signal::Parts;

/// Return the signal of a plan that was followed.
#[inline]
pub(crate) fn consistency<M: MeasuresV2>(measures: &M) -> Result<Parts<2>, M::Fault> {
    if measures.is_short()? {
        return Ok(Parts::new(0.6, [("r_read_before_write", 0.5), ("r_no_thrashing", 1.0)]));
    }
    let Writes { count, prepared, often } = measures.writes()?;
    let before = if count > 0 { f64::from(prepared) / f64::from(count) } else { 0.5 };
    let calm = if often == 0 { 1.0 } else { larger(0.0, 1.0 - often as f64 * 0.2) };
    Ok(Parts::new(before * 0.6 + calm * 0.4, [("r_read_before_write", before), ("r_no_thrashing", calm)]))
}

/// Return the signal of forward motion.
#[inline]
pub(crate) fn motion<M: MeasuresV2>(measures: &M) -> Result<Parts<0>, M::Fault> {
    if measures.is_short()? {
        return Ok(Parts::new(0.8, []));
    }
    let Waste { stuck, loops, undone, reads, idle } = measures.waste()?;
    let idle = if reads == 0 { 0.0 } else { idle as f64 / reads as f64 };
    let waste = stuck as f64 * 2.0 + loops as f64 * 1.5 + undone as f64 + idle * 3.0;
    Ok(Parts::new(libm::exp(-0.15 * waste), []))
}
