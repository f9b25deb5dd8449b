//! Work units of a conversion, shared among threads: a session, or a file with one.

use super::output::Output;
use super::report::Made;
use crate::error::{Error, Result};
use crate::parallel::share;

/// Run every unit on some thread and write its lines; return the merged account.
///
/// # Errors
/// First failure in the order of the units.
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
                if !output.redacts() {
                    made.count_secrets(&lines);
                }
                made.secrets.extend(output.put(at, lines)?);
                Ok(made)
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

/// Merge the accounts of all threads, or return the error. A thread stopped by another's failure reports only
/// an interruption.
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
