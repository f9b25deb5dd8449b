//! Chosen records to the rows of a data set.
//!
//! ```text
//! ranking ──► fetch ──► trusted parse ──► example ──► redact ──► judge ──► Draft ──► directory
//! next key       bytes      whole value       trim, lint    secrets    length     rows      whole or not at all
//! ```
//!
//! A chosen record that fails on the way is counted under its [`Flaw`], and the next key takes its place: the law
//! of the rest is unchanged. With replacement there is no next key, and the draw is made again without that record.

mod answer;
pub(crate) mod content;
mod deal;
pub mod directory;
pub mod draft;
pub mod example;
mod file;
mod make;
pub(crate) mod openai;
mod plan;
pub mod render;
pub mod secrets;
mod system;
mod transcript;
pub(crate) mod turn;
mod walk;
mod work;

pub use answer::answers;
pub use deal::{Dealing, Ordinals, Splits};
pub use draft::{Draft, Draw, ExportSettings, Facts, Judge, Prepared, draft};
pub use example::{Example, Flaw};
pub use render::Shape;
pub use walk::Strata;
