//! Whether the agent looked at what it had done.

use crate::files::Files;
use crate::{Fault, Signal, Trajectory, Value, Words};

/// The signal of tests, builds and second looks; v2 alone has it.
///
/// ```text
/// verification = .4 [a test ran] + .3 [a build ran] + .09 [a written file was read]
/// ```
///
/// A test or a build is a command of Bash ([`Words`]). .6 where no tool changed a file,
/// .5 where the total is 0.
///
/// # Errors
/// [`Fault::Attribute`] for parameters that are no object and a command that is no text, [`Fault::Type`] for a path that
/// is a list or an object.
pub fn verification(trajectory: &Trajectory<'_>, files: &Files) -> Result<Signal, Fault> {
    if trajectory.total.or_zero().is_zero() {
        return Ok(Signal::new(0.5, parts(false, false, false)));
    }
    let (test, build, read) = seen(trajectory, files)?;
    if !trajectory.counts.tools()?.iter().any(|(mutation, _)| *mutation) {
        let [test, build, read] = parts(false, false, false);
        return Ok(Signal::new(0.6, [test, build, read, ("r_no_mutation", 1.0)]));
    }
    Ok(Signal::new(of_three(test, build, read), parts(test, build, read)))
}

pub(crate) fn of_three(test: bool, build: bool, read: bool) -> f64 {
    let again = if read { 0.3 } else { 0.0 };
    f64::from(test) * 0.4 + f64::from(build) * 0.3 + again * 0.3
}

fn parts(test: bool, build: bool, read: bool) -> [(&'static str, f64); 3] {
    [("r_has_test", test.into()), ("r_has_build", build.into()), ("r_read_after_write", read.into())]
}

fn seen(trajectory: &Trajectory<'_>, files: &Files) -> Result<(bool, bool, bool), Fault> {
    let (mut test, mut build, mut read) = (false, false, false);
    let mut written = files.none();
    let (events, end) = trajectory.events.until();
    for (at, event) in events.iter().enumerate() {
        let [command, file] = event.params()?;
        if event.tool.is("Bash") {
            let words = words(command)?;
            test |= words.test;
            build |= words.build;
        } else if !matches!(command, Value::Text(_)) && command.truth() {
            return Err(Fault::Attribute);
        }
        if event.tool.is_in(&["Write", "Edit"]) && file.truth() {
            written[files.of(at)?] = true;
        }
        if event.tool.is("Read") && written.contains(&true) {
            read |= written[files.of(at)?];
        }
    }
    end?;
    Ok((test, build, read))
}

fn words(command: &Value<'_>) -> Result<Words, Fault> {
    match command {
        Value::Text(text) => Ok(Words::of(text)),
        other if other.truth() => Err(Fault::Attribute),
        _ => Ok(Words::default()),
    }
}
