//! Resampling: intervals of means, and tests of paired differences.
//!
//! | question | point | file |
//! |---|---|---|
//! | between which numbers a mean lies | [`bootstrap_mean`] | `bootstrap.rs` |
//! | whether paired differences have a mean above 0 | [`sign_flip`] | `sign_flip.rs` |
//! | the least mean that the differences are compatible with | [`sign_flip_limit`] | `sign_flip.rs` |
//!
//! Laws, each with a test: the same bits for any number of threads; the exact test equals enumeration; a limit and
//! the test agree; flipped differences have the mirrored limit.

mod bootstrap;
mod sign_flip;

pub use bootstrap::bootstrap_mean;
pub use sign_flip::{EXACT_MOST, sign_flip, sign_flip_limit};
