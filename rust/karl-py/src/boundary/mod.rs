//! The boundary with Python: arrays in and out, Arrow, the interpreter lock, errors, groups, build facts.

pub(crate) mod array;
pub(crate) mod arrow;
pub(crate) mod build_info;
pub(crate) mod error;
pub(crate) mod grouping;
pub(crate) mod release_gil;
