//! The formula of the reward: six signals and their weighted sum, over what a trajectory measures.
//!
//! Typed records, raw lines and columns implement `Measures`, and for v2 `MeasuresV2`. Methods are called in KARL's order,
//! so that a record raises what KARL raises first; counted calls raise nothing.

pub(crate) mod composite;
pub mod efficiency;
pub(crate) mod entropy;
pub(crate) mod measures;
pub mod motion;
pub mod outcome;
pub mod process;
pub mod verification;

pub(crate) use composite::{SignalsV1, SignalsV2, V2, composite};
pub(crate) use measures::{Measures, MeasuresV2};
