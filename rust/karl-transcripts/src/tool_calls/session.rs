//! Work of a session that can be compared with a git history.

use std::path::PathBuf;

/// Work of one session.
#[derive(Clone, Debug, Default)]
pub struct SessionWork {
    /// Id of the session.
    pub id: String,
    /// Working directory.
    pub directory: Option<PathBuf>,
    /// Time of the first entry, in seconds since 1970.
    pub start: Option<i64>,
    /// Time of the last entry, in seconds since 1970.
    pub end: Option<i64>,
    /// Edits of files, in the order of the transcript.
    pub edits: Vec<FileEdit>,
    /// Commits that the output of `git commit` names.
    pub named_commits: Vec<NamedCommit>,
    /// Ids of sessions and checkpoints that a trailer of a commit may name.
    pub trailers: Vec<String>,
}

/// Edit of one file.
#[derive(Clone, Debug, Default)]
pub struct FileEdit {
    /// Path as the tool call has it.
    pub path: String,
    /// Lines written.
    pub added: Vec<String>,
    /// Lines removed, where the call has them.
    pub removed: Vec<String>,
    /// True if the file, or a folder of that name, was deleted.
    pub deletes: bool,
    /// Id of the tool call.
    pub call: String,
    /// Index of the call's message in the trajectory.
    pub message: usize,
    /// Time, in seconds since 1970.
    pub time: Option<i64>,
}

/// Commit that the output of `git commit` names.
#[derive(Clone, Debug, Default)]
pub struct NamedCommit {
    /// Hash, often abbreviated.
    pub hash: String,
    /// First line of the message.
    pub subject: String,
    /// Id of the tool call.
    pub call: String,
}
