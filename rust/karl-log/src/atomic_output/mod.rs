//! Finished files and directories put in their place: whole or not at all, and in the place of nothing that is not ours.
//!
//! ```text
//! Target::look ──► work in a hidden file or directory beside it ──► Target::put
//! what is there,                                                    the same is there:   rename, or swap
//! by identity                                                       anything else:       an error, and all stays
//! ```
//!
//! Where nothing was, a rename that replaces nothing puts the result there. An output of ours is swapped with the new one
//! in one step; what came out is compared with what was looked at, and goes back where it differs. Runs that end at once
//! in one folder take turns.

mod folder;
mod hidden;
mod identity;
mod kind;
mod parents;
mod rename;
mod replace;
mod target;

pub(crate) use folder::{is_absent, sync};
pub use kind::{OutputKind, PARQUET};
pub(crate) use parents::Parents;
pub use target::Target;
