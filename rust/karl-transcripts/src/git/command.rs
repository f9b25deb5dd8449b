//! Commands of git that read objects, and execute nothing of the repository.
//!
//! Every environment variable of git, and the user's and the system's configuration are left out. Hooks, the
//! pager, the file system monitor and lazy fetches are off. [`super::repository`] adds the rest: it reads the
//! objects through a git directory of its own, so that the repository's configuration is not there either.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use karl_log::cancel::Watch;

use super::refusal::{Refusal, Why};

/// Most bytes that one command may write.
const MOST_BYTES: u64 = 2 << 30;

/// Time between two checks for cancellation, and most of them: ten minutes.
const TICK: Duration = Duration::from_millis(50);
const MOST_TICKS: u32 = 12_000;

/// Variables of the environment that git keeps. The last two are for git of Apple and of Windows.
const KEPT: [&str; 5] = ["PATH", "HOME", "TMPDIR", "DEVELOPER_DIR", "SYSTEMROOT"];

/// Values that switch off whatever git could execute, ask or write.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("XDG_CONFIG_HOME", "/dev/null"),
    ("LC_ALL", "C"),
];

/// Settings of every command. Whoever owns the repository, it is only read: `safe.directory` protects from
/// executing its configuration, which is not done here.
const SETTINGS: [&str; 4] =
    ["safe.directory=*", "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.attributesFile=/dev/null"];

/// Way to run git on one repository.
#[derive(Debug)]
pub(crate) struct Git<'w> {
    /// Repository as the user named it, for messages.
    pub(super) path: PathBuf,
    /// Arguments in front of the command.
    pub(super) place: Vec<PathBuf>,
    /// Objects of the repository, if they are read through another git directory.
    pub(super) objects: Option<PathBuf>,
    /// Index of the repository, if its files are compared through another git directory.
    pub(super) index: Option<PathBuf>,
    /// Cancellation.
    pub(super) watch: &'w Watch,
}

impl Git<'_> {
    /// Run a command with `input` on its standard input; return its output.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut child = self
            .command(arguments)
            .spawn()
            .map_err(|error| Refusal::new(&self.path, Why::NoGit, error.to_string()))?;
        let outcome = self.exchange(&mut child, input);
        if outcome.is_err() {
            // It may have ended already.
            let _ = child.kill();
        }
        let ended = child.wait();
        let (output, errors) = outcome?;
        match ended {
            Ok(status) if status.success() => Ok(output),
            Ok(_) => Err(Refusal::of_git(&self.path, &errors)),
            Err(error) => Err(Refusal::new(&self.path, Why::Failed, error.to_string())),
        }
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new("git");
        command.env_clear().envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(ENVIRONMENT).arg("--no-pager");
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.args(&self.place).args(arguments);
        if let Some(objects) = &self.objects {
            command.env("GIT_OBJECT_DIRECTORY", objects);
        }
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Write the input and read both outputs at once, so that no pipe fills up.
    fn exchange(&self, child: &mut Child, input: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
        let output = read_aside(child.stdout.take(), MOST_BYTES + 1);
        let errors = read_aside(child.stderr.take(), 1 << 16);
        let mut stdin = child.stdin.take();
        thread::scope(|scope| {
            scope.spawn(move || {
                // A command that ends early closes the pipe: its exit status says why.
                let _ = stdin.as_mut().map(|stdin| stdin.write_all(input));
            });
            let output = self.wait(&output, child)?;
            if output.len() as u64 > MOST_BYTES {
                let _ = child.kill();
                return Err(Refusal::new(&self.path, Why::TooLarge, ""));
            }
            Ok((output, self.wait(&errors, child)?))
        })
    }

    /// Wait for an output; kill the command if it takes too long or the caller cancels.
    fn wait(&self, from: &Receiver<Vec<u8>>, child: &mut Child) -> Result<Vec<u8>, Refusal> {
        for _ in 0..=MOST_TICKS {
            match from.recv_timeout(TICK) {
                Ok(bytes) => return Ok(bytes),
                Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
                Err(RecvTimeoutError::Timeout) if self.watch.is_stopped() => {
                    let _ = child.kill();
                    return Err(Refusal::new(&self.path, Why::Interrupted, ""));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let _ = child.kill();
        Err(Refusal::new(&self.path, Why::TimedOut, ""))
    }
}

/// Read a pipe on a thread of its own, at most `most` bytes of it.
fn read_aside(pipe: Option<impl Read + Send + 'static>, most: u64) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read so far counts; the exit status tells of a failure.
            let _ = pipe.take(most).read_to_end(&mut bytes);
        }
        // The receiver is gone if the command was cancelled.
        let _ = send.send(bytes);
    });
    receive
}

/// Return the arguments `-C path`.
pub(super) fn inside(path: &Path) -> Vec<PathBuf> {
    vec![PathBuf::from("-C"), path.to_path_buf()]
}
