//! Reasons why a repository cannot be compared with sessions.

use std::fmt;
use std::path::{Path, PathBuf};

/// Repository that cannot be read, with the reason.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Repository.
    pub path: PathBuf,
    /// Reason.
    pub why: Why,
    /// Message of git or of the system; may be empty.
    pub detail: String,
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Folder missing, or a link that leads nowhere.
    NoFolder,
    /// Folder outside of any repository.
    NoRepository,
    /// Repository without a commit.
    NoCommits,
    /// Shallow clone: its oldest commits would count as the authors of every line.
    Shallow,
    /// Commit, tree or file that the object store lacks, as in a partial clone.
    MissingObject,
    /// Command `git` missing or too old.
    NoGit,
    /// More output than one command may have.
    TooLarge,
    /// Command of git that did not end in time.
    TimedOut,
    /// Other failure of git.
    Failed,
    /// Cancellation by the caller.
    Interrupted,
}

impl Why {
    /// Return the name in accounts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFolder => "no_folder",
            Self::NoRepository => "no_repository",
            Self::NoCommits => "no_commits",
            Self::Shallow => "shallow_clone",
            Self::MissingObject => "missing_object",
            Self::NoGit => "no_git",
            Self::TooLarge => "too_large",
            Self::TimedOut => "timed_out",
            Self::Failed => "git_failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Return the problem and what to do about it.
    const fn problem(self) -> &'static str {
        match self {
            Self::NoFolder => "the folder cannot be opened; check the path",
            Self::NoRepository => {
                "it is not in a git repository; name the folder that holds .git, or a bare one"
            }
            Self::NoCommits => "the repository has no commits; name the one that the sessions worked in",
            Self::Shallow => "it is a shallow clone; run `git fetch --unshallow` there first",
            Self::MissingObject => {
                "objects are missing, as in a partial clone, and nothing is fetched; clone it in full"
            }
            Self::NoGit => "the command git 2.36 or newer is needed; install it, or leave out the repository",
            Self::TooLarge => "a command of git wrote more than 2 GiB; name a smaller repository",
            Self::TimedOut => {
                "a command of git took more than ten minutes; run `git gc` there, and try again"
            }
            Self::Failed => "git failed; run `git fsck` there",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Refusal {
    /// Create a refusal.
    pub(super) fn new(path: &Path, why: Why, detail: impl Into<String>) -> Self {
        Self { path: path.to_path_buf(), why, detail: detail.into() }
    }

    /// Return a failure of git, named by its message.
    pub(super) fn of_git(path: &Path, stderr: &[u8]) -> Self {
        let text = String::from_utf8_lossy(stderr);
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let why = if has(&["not a git repository"]) {
            Why::NoRepository
        } else if has(&["missing", "bad object", "unable to read", "could not fetch", "lazy fetching"]) {
            Why::MissingObject
        } else if has(&["unknown option", "unrecognized argument", "unknown switch"]) {
            Why::NoGit
        } else {
            Why::Failed
        };
        // Hints and warnings come first.
        let fatal = text.lines().rfind(|line| line.starts_with("fatal: ")).or_else(|| text.lines().last());
        Self::new(path, why, fatal.unwrap_or_default())
    }
}

impl Refusal {
    /// Return the problem, and what to do about it.
    #[must_use]
    pub fn problem(&self) -> String {
        let problem = self.why.problem();
        // Git's words hold names of the repository: escapes keep them off the terminal.
        if self.detail.is_empty() {
            problem.to_owned()
        } else {
            format!("{problem} ({})", self.detail.escape_debug())
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display().to_string().escape_debug(), self.problem())
    }
}

impl std::error::Error for Refusal {}
