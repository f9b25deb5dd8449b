//! Tests of the crate from outside, in one program: linking one is quicker than linking twenty.
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

mod accounting;
mod compressed;
mod directory;
mod duplicates;
mod export;
mod formats;
mod group_cap;
mod json_corpus;
mod json_scan;
mod json_test_suite;
mod layouts;
mod lines;
mod logs;
mod mixed_layouts;
mod order;
mod reread;
mod second_pass;
mod secrets;
mod truncated;
mod values;
