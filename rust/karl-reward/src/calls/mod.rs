//! Calls in numbers: the usual lines of a log, and columns.

mod bash_purpose;
mod call;
mod numbers;
mod plan;
mod tools;

pub use bash_purpose::Words;
pub use call::{Call, ToolKind};
pub use numbers::Numbers;
pub use plan::Ledger;
pub use tools::Tools;
