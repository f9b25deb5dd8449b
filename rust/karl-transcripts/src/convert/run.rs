//! Work units of a conversion, shared among threads: a session, or a file with one.

use karl_log::error::{Error, Result};
use karl_log::parallel::share;

use super::output::Output;
use super::report::{Made, RecordCounts};

/// Writer of the lines that are made of one trajectory; `None` if it has values of other types than it needs.
pub(crate) type Reshape<'a> = dyn Fn(&[u8], &mut Vec<u8>) -> Option<RecordCounts> + Sync + 'a;

/// Run every unit on some thread and write its lines; return the merged account.
///
/// # Errors
/// First failure in the order of the units.
pub(crate) fn run(
    count: usize,
    threads: usize,
    output: &Output<'_>,
    reshape: Option<&Reshape<'_>>,
    unit: impl Fn(usize) -> Result<(Vec<u8>, Made)> + Sync,
) -> Result<Made> {
    joined(share(count, threads, |queue| {
        let mut all = Made::default();
        while let Some(at) = queue.take() {
            let done = unit(at).and_then(|(lines, mut made)| {
                // The whole texts are protected: a reshaped line has pieces, in which a secret is not recognised.
                let lines = output.protected(lines, &mut made.secrets);
                let lines = match reshape {
                    Some(reshape) => reshaped(&lines, reshape, &mut made),
                    None => lines,
                };
                if !output.redacts() {
                    made.count_secrets(&lines);
                }
                output.put_protected(at, lines)?;
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

/// Return the lines made of some trajectories; count them.
fn reshaped(lines: &[u8], reshape: &Reshape<'_>, made: &mut Made) -> Vec<u8> {
    let mut out = Vec::new();
    made.rewarded = 0;
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let Some(counts) = reshape(line, &mut out) else {
            made.note("no_trajectory");
            continue;
        };
        made.records += counts.written;
        made.rewarded += counts.rewarded;
        made.notes_of("prompt_without_calls", counts.without_calls);
    }
    out
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
