//! The units of work of a conversion, shared among threads: a session, or a file that is one.

use super::output::Output;
use super::report::Made;
use crate::error::{Error, Result};
use crate::parallel::share;

/// Makes every unit on some thread and hands its lines over; what became of all.
///
/// # Errors
/// The first failure in the order of the units, of those that were met.
pub(super) fn run(
    count: usize,
    threads: usize,
    output: &Output<'_>,
    unit: impl Fn(usize) -> Result<(Vec<u8>, Made)> + Sync,
) -> Result<Made> {
    joined(share(count, threads, |queue| {
        let mut all = Made::default();
        while let Some(at) = queue.take() {
            let done = unit(at).and_then(|(lines, mut made)| {
                made.count_secrets(&lines);
                output.put(at, lines).map(|()| made)
            });
            match done {
                Ok(made) => all.add(made),
                Err(error) => {
                    output.fail();
                    return Err((at, error));
                }
            }
        }
        Ok(all)
    }))
}

/// All that the threads have made, or why they failed. A thread that another's failure stopped says only that it was
/// interrupted.
fn joined(done: Vec<std::result::Result<Made, (usize, Error)>>) -> Result<Made> {
    let (mut all, mut failures) = (Made::default(), Vec::new());
    for part in done {
        match part {
            Ok(made) => all.add(made),
            Err(failure) => failures.push(failure),
        }
    }
    let first = failures.into_iter().min_by_key(|(at, error)| (matches!(error, Error::Interrupted), *at));
    first.map_or(Ok(all), |(_, error)| Err(error))
}
