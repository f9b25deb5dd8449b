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

mod checks;
pub mod commits;
mod groups;
pub mod next_turn;
pub mod outcome;
mod records;
mod run;
mod runners;
pub mod table;
mod transcript_outcome;

pub(crate) use self::checks::checks;
pub use self::outcome::{Attributed, Evidence, Outcome, Report, Settings};
pub use self::run::run;
