//! Whether the agent looked at what it had done.

use super::files::Files;
use super::{Fault, Signal, Trajectory, Value};

const TESTS: [&str; 6] = ["pytest", "npm test", "bun test", "cargo test", "go test", "make test"];
const BUILDS: [&str; 5] = ["xcodebuild", "cargo build", "make ", "npm run build", "bun build"];

/// The signal of tests, builds and second looks; v2 alone has it.
///
/// ```text
/// verification = .4 [a test ran] + .3 [a build ran] + .09 [a written file was read]
/// ```
///
/// A test or a build is a command of Bash with one of eleven words in it, in any case. .6 where no tool changed a file,
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
    let again = if read { 0.3 } else { 0.0 };
    let score = f64::from(test) * 0.4 + f64::from(build) * 0.3 + again * 0.3;
    Ok(Signal::new(score, parts(test, build, read)))
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
            let command = lower(command)?;
            test |= command.contains("test") && TESTS.iter().any(|word| command.contains(word));
            build |= BUILDS.iter().any(|word| command.contains(word));
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

fn lower(command: &Value<'_>) -> Result<String, Fault> {
    match command {
        Value::Text(text) => Ok(text.to_lowercase()),
        other if other.truth() => Err(Fault::Attribute),
        _ => Ok(String::new()),
    }
}
