//! Tests of the crate from outside, in one program: linking one is quicker than linking twenty.
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

mod distribution;
mod diversity;
mod errors;
mod exp;
mod factors;
mod filter;
mod filter_masks;
mod golden;
mod laws;
mod logsumexp;
mod naive;
mod objective;
mod pinned_outputs;
mod resampling;
mod samplers;
mod selection;
mod sketches;
mod split;
mod statistics;
mod summary;
mod target;
mod weighted;
