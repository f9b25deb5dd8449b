//! Outcomes of sessions from evidence in transcripts and git.

pub mod session;
