//! Atomic output of files and directories: complete or not at all, never replacing anything but an output of
//! this program.
//!
//! ```text
//! Target::look ──► work in a hidden file or directory beside it ──► Target::put
//! what is there,                                                    the same is there:   rename, or swap
//! by identity                                                       anything else:       an error, and all stays
//! ```
//!
//! If the target did not exist, a rename that replaces nothing puts the result there. An existing output is
//! swapped with the new one in one step; the old one is compared with the first look, and swapped back if it
//! differs. Runs that finish at once in one folder take turns.

mod identity;
mod rename;
mod target;

pub(crate) use target::Parents;
pub use target::{OutputKind, OutputTarget, PARQUET, is_absent, sync};
