//! The signal of tests, builds and second looks; v2 alone has it.
//!
//! ```text
//! verification = .4 [a test ran] + .3 [a build ran] + .09 [a written file was read]
//! ```
//!
//! A test or a build is a command of Bash ([`Words`](crate::Words)). .6 where no tool changed a file, .5 where the total is 0.

use super::measures::MeasuresV2;
use crate::python_arithmetic::clip;
use crate::signal::{Parts, Signal};

/// The signal, and whether it is that of a trajectory that changed no file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verification {
    pub(crate) score: f64,
    seen: [bool; 3],
    unchanged: bool,
}

/// Return the signal.
#[inline]
pub(crate) fn verification<M: MeasuresV2>(measures: &M) -> Result<Verification, M::Fault> {
    let none = Verification { score: 0.5, seen: [false; 3], unchanged: false };
    if measures.is_empty() {
        return Ok(none);
    }
    let seen @ [test, build, read] = measures.verified()?;
    if !measures.changes_files()? {
        return Ok(Verification { score: 0.6, unchanged: true, ..none });
    }
    let again = if read { 0.3 } else { 0.0 };
    let score = f64::from(test) * 0.4 + f64::from(build) * 0.3 + again * 0.3;
    Ok(Verification { score: clip(score), seen, unchanged: false })
}

impl From<Verification> for Signal {
    fn from(Verification { score, seen, unchanged }: Verification) -> Self {
        let [test, build, read] = seen.map(f64::from);
        let [test, build, read] =
            [("r_has_test", test), ("r_has_build", build), ("r_read_after_write", read)];
        if unchanged {
            return Parts::new(score, [test, build, read, ("r_no_mutation", 1.0)]).into();
        }
        Parts::new(score, [test, build, read]).into()
    }
}
