//! A git repository, read by the command `git`: history, patches, blame, snapshots.
//!
//! The command does the work: it follows moved and copied lines (`blame -w -M -C`), which no library in Rust does.

pub(crate) mod history;
pub(crate) mod patch;
pub(crate) mod repository;

pub(crate) use history::{Commit, CommitLog};
pub use history::{Oid, PullRequest};
pub use repository::{Refusal, Snapshot, Why, shared_directory, snapshot};
