//! JSON texts: the fast scan for wanted values, the reference parser, and their shared parts.

pub(crate) mod dumps;
pub mod duplicate_keys;
pub mod project;
pub mod reference_parser;
pub mod scalar;
pub(crate) mod simd;
pub mod unescape;
pub(crate) mod validate;
