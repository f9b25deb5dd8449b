//! Transcripts of agents to trajectories, and what each was worth.
//!
//! ```text
//! archive ◄── files of agents ──► convert ──► trajectories ──► outcomes (tool_calls, git) ──► rewards
//!                                    │                              pairs: what a user preferred
//!                                    └── commits, karl_records: other rows of the same sources
//! ```
//!
//! Nothing here depends on Python or does arithmetic on rewards. Git is asked by its command, and only read.

#![forbid(unsafe_code)]

pub mod archive;
pub mod commits;
pub mod convert;
pub mod git;
pub mod karl_records;
pub mod outcomes;
pub mod pairs;
pub mod tool_calls;
