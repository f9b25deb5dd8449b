//! Conversations of records: parsed in the forms of all producers, checked, and hashed.

pub mod blocks;
pub(crate) mod content_hash;
mod example;
mod flaw;
mod media;
pub mod openai;
pub mod results;
pub mod turn;

pub(crate) use example::reward_input;
pub use example::{Example, RecordedTrajectory, TrimmedExample, example, held, offered};
pub use flaw::Flaw;
