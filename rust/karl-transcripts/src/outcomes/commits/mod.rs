//! Outcomes from git: which commits a session made, and what became of them.
//!
//! ```text
//! git::history ──► attribute ──► survival   blame at the horizon
//! commits          sessions'     reverts    by message or inverse patch
//! files            lines         merges     pull requests
//! ```
//!
//! Each commit is read once for all sessions.

mod attribute;
mod comparison;
mod findings;
mod reverts;
mod session_lines;
mod survival;

pub use findings::{Settings, compare};
