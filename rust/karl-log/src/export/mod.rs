//! Conversion of chosen records to the rows of a data set.
//!
//! ```text
//! ranking ──► fetch ──► reference parse ──► example ──► redact ──► judge ──► Draft ──► directory
//! next key    bytes     whole value         trim, lint  secrets    length    rows      whole or not at all
//! ```
//!
//! A chosen record that fails is counted under its [`Flaw`](crate::conversation::Flaw) and replaced by the
//! next key: the distribution of the rest is unchanged. With replacement there is no next key, and the draw
//! is repeated without that record.

pub mod directory;
pub mod draft;
mod forms;
mod message_text;
mod partner;
mod produce_rows;
mod quota;
mod render;
mod row;
mod settings;
mod shape;
mod split;

pub use draft::Draft;
pub use produce_rows::draft;
pub use quota::Strata;

pub use settings::{Draw, ExportSettings, Judge, Prepared, SelectionValues};
pub use shape::Shape;
pub use split::{Dealing, Ordinals, Splits};
