//! Outcomes from git: which commits a session made, and what became of them.
//!
//! ```text
//! repository ──► history ──► attribute ──► survival   blame at the horizon
//! objects only   commits     sessions'     reverts    by message or inverse patch
//!                files       lines         merges     pull requests
//! ```
//!
//! The command `git` does the work: it follows moved and copied lines (`blame -w -M -C`), which no library in
//! Rust does. Each commit is read once for all sessions.

mod attribute;
mod blame;
mod command;
mod commit_log;
mod comparison;
mod findings;
mod history;
mod lines;
mod merges;
mod patch;
mod refusal;
mod repository;
mod reverts;
mod session_lines;
mod snapshot;
mod survival;
mod trailers;

pub(crate) use commit_log::CommitLog;
pub use findings::{Settings, compare};
pub(crate) use history::Commit;
pub use merges::{Oid, PullRequest};
pub use refusal::{Refusal, Why};
pub use repository::shared_directory;
pub use snapshot::{Snapshot, snapshot};
