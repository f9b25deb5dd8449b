//! The rewards of KARL, to the last bit: v1 of three signals, v2 of six.
//!
//! ```text
//! Node (a dict, or raw JSON) ──► Outcome, Trajectory, Timing ──► signals ──► round to 4 decimals
//!        what is read              what each value means to Python
//! ```
//!
//! | signal | v1 | v2 | of |
//! |---|---|---|---|
//! | outcome | .40 | .25 | what the user did next |
//! | process | .35 | .22 | how the calls went |
//! | efficiency | .25 | .13 | which tools, how fast |
//! | verification | | .13 | tests, builds, read after write |
//! | consistency | | .13 | read before write, no file over and over |
//! | motion | | .14 | loops, reads for nothing, undone writes |
//!
//! Where Python raises on a value that has the wrong type, there is a [`Fault`] of the same class here, found in the same
//! order. Three things are left out: whole numbers of more than 64 bits are taken as the nearest float, and those beyond
//! every float as one number; a tool's name that is a list or an object equals no other; and sums of floats are plain, as
//! up to Python 3.11.
//!
//! A canonical trajectory (`karl_fast_trajectory`) has its events in its messages, its time in `duration_seconds`, and an
//! outcome where somebody adds one.
//!
//! Reference: the repository Diomandeee/karl, commits 7d5ef32 (v1) and c41d1c5 (v2).

#![forbid(unsafe_code)]

mod canonical;
mod columns;
mod efficiency;
mod entropy;
mod events;
mod files;
mod motion;
mod node;
mod numbers;
mod outcome;
mod plan;
mod process;
mod round;
mod score;
mod tally;
mod tools;
mod trajectory;
mod value;
mod verification;
mod words;

pub use columns::{Columns, scores};
pub use efficiency::efficiency;
pub use events::{Event, Events, PARAMS, longest_failure};
pub use files::Files;
pub use motion::{consistency, motion};
pub use node::Node;
pub use numbers::{Call, Kind, Numbers};
pub use outcome::{OUTCOME, outcome, said};
pub use plan::Ledger;
pub use process::process;
pub use round::round4;
pub use score::{Record, Reward, score};
pub use tools::Tools;
pub use trajectory::{Counts, TRAJECTORY, Trajectory};
pub use value::Value;
pub use verification::verification;
pub use words::Words;

/// Which of KARL's rewards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Three signals, of v1.0.0.
    V1,
    /// Six signals, of the commit c41d1c5.
    V2,
}

/// Why a record has no reward: the class of what Python raises on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `AttributeError`: what has to be an object is none, or a command no text.
    Attribute,
    /// `TypeError`: what has to be a number, a list or a name is none.
    Type,
    /// `ZeroDivisionError`.
    ZeroDivision,
    /// `OverflowError`: a whole number beyond every float.
    Overflow,
    /// `ValueError`: the text is not JSON.
    Syntax,
}

/// A named part of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Component {
    /// KARL's name of it.
    pub name: &'static str,
    /// Rounded to four decimals.
    pub value: f64,
    /// Whether KARL writes it as a whole number.
    pub whole: bool,
}

/// A signal: its score in `[0, 1]`, not rounded, and its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// The score.
    pub score: f64,
    /// The parts, in KARL's order.
    pub components: Vec<Component>,
}

impl Signal {
    fn new<const N: usize>(score: f64, components: [(&'static str, f64); N]) -> Self {
        let part = |(name, value)| Component { name, value: round4(value), whole: false };
        Self { score: clip(score), components: components.map(part).to_vec() }
    }
}

/// Python's `max(0.0, min(1.0, x))`, which takes NaN for 1.
fn clip(x: f64) -> f64 {
    larger(0.0, smaller(1.0, x))
}

/// Python's `min`: the first unless the second is less.
fn smaller(first: f64, second: f64) -> f64 {
    if second < first { second } else { first }
}

/// Python's `max`: the first unless the second is more.
fn larger(first: f64, second: f64) -> f64 {
    if second > first { second } else { first }
}
