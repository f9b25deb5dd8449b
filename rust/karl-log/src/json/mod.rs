//! JSON texts: wanted values by a fast scan, the reference parser, and what both need.

pub(crate) mod duplicate_keys;
pub(crate) mod number_text;
pub mod project;
pub mod reference;
pub mod scalar;
pub(crate) mod simd;
pub(crate) mod string;
pub(crate) mod validate;
