//! The rewards of KARL, to the last bit: v1 of three signals, v2 of six.
//!
//! ```text
//! record (a dict, or raw JSON) ──► record::Record ──┐
//! line of the usual shape      ──► calls::Numbers ──┼──► formula ──► round to 4 decimals
//! columns                      ──► columns ─────────┘
//! ```
//!
//! | signal | v1 | v2 | of |
//! |---|---|---|---|
//! | outcome | .40 | .25 | the user's next turns |
//! | process | .35 | .22 | success of the calls |
//! | efficiency | .25 | .13 | mix of tools, pace |
//! | verification | | .13 | tests, builds, read after write |
//! | consistency | | .13 | read before write, no file over and over |
//! | motion | | .14 | loops, reads for nothing, undone writes |
//!
//! The formula is written once ([`formula`]), over a trait that typed records, raw lines and columns implement.
//!
//! Where Python raises on a value of the wrong type, this crate returns a [`Fault`] of the same class, in the same
//! order. Three things differ: integers of more than 64 bits become the nearest float, and those beyond every float
//! one number; a tool's name that is a list or an object equals no other; and sums of floats are plain, as up to
//! Python 3.11.
//!
//! A canonical trajectory (`karl_fast_trajectory`) has its events in its messages, its time in `duration_seconds`,
//! and an outcome if one was added.
//!
//! Reference: the repository Diomandeee/karl, commits 7d5ef32 (v1) and c41d1c5 (v2). The replica is frozen at both.

#![forbid(unsafe_code)]

pub mod calls;
pub mod columns;
pub mod formula;
mod python_arithmetic;
pub mod record;
pub mod reward;

pub use calls::{Call, Ledger, Numbers, ToolKind, Tools, Words};
pub use columns::{TrajectoryColumns, scores};
pub use formula::{OUTCOME, Signal, SignalComponent};
pub use python_arithmetic::round4;
pub use record::{
    Event, Events, Fault, Node, PARAMS, Record, TRAJECTORY, ToolCounts, TrajectoryCalls, Value, efficiency,
    longest_failure, outcome, process, read_outcome, score,
};
pub use reward::{Reward, SCORES, Version};
