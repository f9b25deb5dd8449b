//! A git repository, read by the command `git`: history, patches, blame, snapshots.
//!
//! The command does the work: it follows moved and copied lines (`blame -w -M -C`), which no library in Rust does.

pub(crate) mod blame;
mod command;
mod commit_log;
pub(crate) mod history;
pub(crate) mod lines;
pub(crate) mod merges;
pub(crate) mod patch;
pub(crate) mod refusal;
pub(crate) mod repository;
mod snapshot;
pub(crate) mod trailers;

pub(crate) use commit_log::CommitLog;
pub(crate) use history::Commit;
pub use merges::{Oid, PullRequest};
pub use refusal::{Refusal, Why};
pub use repository::shared_directory;
pub use snapshot::{Snapshot, snapshot};
