//! Calls in numbers: the usual lines of a log, and columns.

mod call;
mod numbers;
mod plan;
mod tools;
mod words;

pub use call::{Call, ToolKind};
pub use numbers::Numbers;
pub use plan::Ledger;
pub use tools::Tools;
pub use words::Words;
