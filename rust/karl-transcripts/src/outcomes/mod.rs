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
pub mod commits;
mod entire_attribution;
mod graders;
mod groups;
mod issue;
mod judged_trajectory;
pub mod next_turn;
pub mod outcome;
mod records;
pub mod report;
mod repositories;
mod request;
pub mod reward;
mod run;
mod runners;
pub mod settings;
mod sub_agent_sessions;
pub mod table;
mod transcript_outcome;
mod verdict;
mod write;

pub(crate) use self::checks::checks;
pub use self::outcome::{Attributed, Evidence, Outcome};
pub use self::report::OutcomesReport;
pub use self::run::run;
pub use self::settings::OutcomesSettings;
