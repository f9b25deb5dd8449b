//! Outcomes of sessions from evidence in transcripts, in files beside them, and in git.
//!
//! ```text
//! transcripts ──► convert ─┐
//! trajectories ────────────┴─► calls ──► tests, build, lint, interrupted ─┐
//!                              edits ──► git, other sessions ─────────────┴─► record with its outcome
//! ```
//!
//! Every component is `None` without evidence, and has its evidence beside it. The records are read twice: to
//! judge them, and to copy them with their outcomes.

mod asked_again;
mod checks;
mod edits;
mod entire_attribution;
pub mod git;
mod graders;
mod groups;
mod issue;
mod judged_trajectory;
pub mod next_turn;
pub mod outcome;
mod processes;
mod records;
pub mod report;
mod repositories;
mod request;
pub mod reward;
mod run;
mod runners;
pub mod session;
pub mod settings;
mod shell;
mod sub_agent_sessions;
pub mod table;
mod tool_calls;
mod trajectory;
mod transcript_outcome;
mod verdict;
mod write;

pub(crate) use self::checks::checks;
pub(crate) use self::edits::edits;
pub use self::outcome::{Attributed, Evidence, Outcome};
pub(crate) use self::processes::{Ran, exit_code};
pub use self::report::OutcomesReport;
pub use self::run::run;
pub use self::session::SessionWork;
pub use self::settings::OutcomesSettings;
pub(crate) use self::shell::command;
pub(crate) use self::tool_calls::calls;
pub(crate) use self::trajectory::{ToolCall, Trajectory, TrajectoryMessage, with as with_trajectory};
pub use crate::format::component::{self, Component};
