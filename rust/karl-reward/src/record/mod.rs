//! Typed records: values with Python's meaning, and the measurements they give the formula.

mod canonical;
mod events;
mod files;
mod measures;
mod record_source;
mod score;
mod signals;
mod trajectory;
mod value;

pub use events::{Event, Events, PARAMS, longest_failure};
pub use record_source::Node;
pub use score::{Record, score};
pub use signals::{efficiency, outcome, process, said};
pub use trajectory::{TRAJECTORY, ToolCounts, TrajectoryCalls};
pub use value::Value;
