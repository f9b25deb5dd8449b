//! Tests of the crate from outside, in one program: linking one is quicker than linking several.
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

mod archive;
mod git_outcomes;
mod next_turn;
