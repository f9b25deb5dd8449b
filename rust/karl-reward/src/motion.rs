//! Whether the trajectory went forward.

use crate::files::Files;
use crate::{Event, Fault, Signal, Trajectory, Value, larger};

/// The signal of a plan that was followed; v2 alone has it.
///
/// ```text
/// consistency = .6 (writes of a file read before / writes) + .4 max(0, 1 - .2 files written three times or more)
/// ```
///
/// The first share is .5 without writes. .6 where the total is below 3.
///
/// # Errors
/// As [`verification`](crate::verification).
pub fn consistency(trajectory: &Trajectory<'_>, files: &Files) -> Result<Signal, Fault> {
    if trajectory.total.or_zero().number()?.below(3) {
        return Ok(Signal::new(0.6, [("r_read_before_write", 0.5), ("r_no_thrashing", 1.0)]));
    }
    let (mut read, mut edits) = (files.none(), files.counts());
    let (mut writes, mut prepared) = (0_u32, 0_u32);
    for (at, event) in trajectory.events.all()?.iter().enumerate() {
        let Some(_) = event.file()? else { continue };
        if event.tool.is("Read") {
            read[files.of(at)?] = true;
        } else if wrote(event) {
            let file = files.of(at)?;
            writes += 1;
            prepared += u32::from(read[file]);
            edits[file] += 1;
        }
    }
    let before = if writes > 0 { f64::from(prepared) / f64::from(writes) } else { 0.5 };
    let often = edits.iter().filter(|&&edits| edits >= 3).count();
    let calm = calm(often);
    let parts = [("r_read_before_write", before), ("r_no_thrashing", calm)];
    Ok(Signal::new(of_two(before, calm), parts))
}

/// How few files were written three times or more.
pub(crate) fn calm(often: usize) -> f64 {
    if often == 0 { 1.0 } else { larger(0.0, 1.0 - often as f64 * 0.2) }
}

pub(crate) fn of_two(before: f64, calm: f64) -> f64 {
    before * 0.6 + calm * 0.4
}

/// The signal of forward motion; v2 alone has it.
///
/// ```text
/// motion = exp(-.15 (2 stuck + 1.5 loops + undone + 3 idle))
///
/// stuck  = runs of three calls or more of one tool with a failure among them
/// loops  = failed calls of Bash right after a failed call of Bash
/// undone = writes of a file right after a write of it
/// idle   = reads of files that are never written / reads
/// ```
///
/// .8 where the total is below 3.
///
/// # Errors
/// As [`verification`](crate::verification).
pub fn motion(trajectory: &Trajectory<'_>, files: &Files) -> Result<Signal, Fault> {
    if trajectory.total.or_zero().number()?.below(3) {
        return Ok(Signal::new(0.8, []));
    }
    let events = trajectory.events.all()?;
    let idle = idle(events, files)?;
    Ok(Signal::new(of_waste(stuck(events), loops(events), undone(events)?, idle), []))
}

pub(crate) fn of_waste(stuck: usize, loops: usize, undone: usize, idle: f64) -> f64 {
    let waste = stuck as f64 * 2.0 + loops as f64 * 1.5 + undone as f64 + idle * 3.0;
    libm::exp(-0.15 * waste)
}

fn wrote(event: &Event<'_>) -> bool {
    event.tool.is_in(&["Write", "Edit"])
}

fn stuck(events: &[Event<'_>]) -> usize {
    let runs = events.chunk_by(|one, two| one.tool.truth() && same(&one.tool, &two.tool));
    runs.filter(|run| run.len() >= 3 && run.iter().any(Event::failed)).count()
}

fn loops(events: &[Event<'_>]) -> usize {
    let failed = |event: &Event<'_>| event.failed() && event.tool.is("Bash");
    events.windows(2).filter(|pair| pair.iter().all(failed)).count()
}

fn idle(events: &[Event<'_>], files: &Files) -> Result<f64, Fault> {
    let (mut read, mut written) = (Vec::new(), files.none());
    for (at, event) in events.iter().enumerate() {
        let Some(_) = event.file()? else { continue };
        if event.tool.is("Read") {
            read.push(files.of(at)?);
        } else if wrote(event) {
            written[files.of(at)?] = true;
        }
    }
    let never = read.iter().filter(|&&file| !written[file]).count();
    Ok(if read.is_empty() { 0.0 } else { never as f64 / read.len() as f64 })
}

fn undone(events: &[Event<'_>]) -> Result<usize, Fault> {
    let mut undone = 0;
    for pair in events.windows(2) {
        let [before, after] = pair else { continue };
        if wrote(before) && wrote(after) {
            let files = (before.file()?, after.file()?);
            undone += usize::from(matches!(files, (Some(one), Some(two)) if same(one, two)));
        }
    }
    Ok(undone)
}

/// Python's `==` of names; a list or an object equals none.
fn same(one: &Value<'_>, two: &Value<'_>) -> bool {
    matches!((one.name(), two.name()), (Ok(one), Ok(two)) if one == two)
}
