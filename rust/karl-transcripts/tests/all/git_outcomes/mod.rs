//! Outcomes from repositories with known fates, and from hostile ones.

mod attribution;
mod repositories;
mod survival;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use karl_log::Watch;
use karl_transcripts::outcomes::commits::{Settings, compare};
use karl_transcripts::outcomes::outcome::Outcome;
use karl_transcripts::tool_calls::{FileEdit, SessionWork};
use tempfile::TempDir;

const HOUR: i64 = 3600;

const DAY: i64 = 24 * HOUR;

const START: i64 = 1_700_000_000;

/// Repository of a test, with a clock of its own.
struct Made {
    folder: TempDir,
    time: i64,
}

impl Made {
    fn new() -> Self {
        Self::with(&["init", "-q", "-b", "main"])
    }

    fn with(init: &[&str]) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap(), time: START - DAY };
        made.git(init);
        made.write("base.py", "import base\n");
        made.commit("Base");
        made
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let date = format!("@{} +0000", self.time);
        let mut command = Command::new("git");
        command.current_dir(self.path()).args(["-c", "commit.gpgSign=false"]).args(arguments);
        command.envs([
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_EDITOR", "true"),
        ]);
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "A").env(format!("GIT_{role}_EMAIL"), "a@b");
            command.env(format!("GIT_{role}_DATE"), &date);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn wait(&mut self, seconds: i64) {
        self.time += seconds;
    }

    /// Let the horizon of everything so far pass.
    fn later(&mut self) {
        self.wait(30 * DAY);
        self.write("later.py", "print('much later')\n");
        self.commit("Later");
    }

    fn compare(&self, sessions: &[SessionWork]) -> Vec<Outcome> {
        compare(self.path(), &sessions.iter().collect::<Vec<_>>(), &Settings::default(), &Watch::new())
            .unwrap()
    }

    fn outcome(&self, session: SessionWork) -> Outcome {
        self.compare(&[session]).remove(0)
    }
}

/// Return lines of code with numbers in them.
fn code(name: &str, numbers: std::ops::Range<usize>) -> String {
    let lines: Vec<String> =
        numbers.map(|number| format!("value_{name}_{number} = compute({number})")).collect();
    lines.join("\n") + "\n"
}

/// Return a session of an hour that writes files.
fn session(made: &Made, files: &[(&str, &str)]) -> SessionWork {
    let edit = |&(path, text): &(&str, &str)| FileEdit {
        path: format!("/elsewhere/repo/{path}"),
        added: text.lines().map(str::to_owned).collect(),
        time: Some(made.time),
        ..FileEdit::default()
    };
    SessionWork {
        id: "session-0001".to_owned(),
        directory: Some(PathBuf::from("/elsewhere/repo")),
        start: Some(made.time),
        end: Some(made.time + HOUR),
        edits: files.iter().map(edit).collect(),
        ..SessionWork::default()
    }
}

/// Let a session write `a.py` with ten lines and commit it.
fn ten_lines(made: &mut Made) -> (SessionWork, String) {
    made.wait(DAY);
    let text = code("a", 0..10);
    let session = session(made, &[("a.py", &text)]);
    made.write("a.py", &text);
    made.wait(HOUR);
    let hash = made.commit("Work");
    (session, hash)
}

fn rules(outcome: &Outcome) -> Vec<(&str, &str)> {
    outcome.attributed.iter().map(|one| (&*one.commit, one.rule)).collect()
}
