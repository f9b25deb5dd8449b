//! Conversations of records: parsed in the forms of all producers, checked, and hashed.

pub(crate) mod content_hash;
mod example;
mod flaw;
mod media;
pub mod openai;
pub mod results;
pub(crate) mod reward_input;
mod system;
mod tool_plan;
pub(crate) mod transcript;
pub mod turn;

pub use example::{Example, TrimmedExample, example};
pub use example::{RecordedTrajectory, held, offered};
pub use flaw::Flaw;
