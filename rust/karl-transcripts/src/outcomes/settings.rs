//! Settings of outcomes.

use std::path::PathBuf;

use karl_redact::Protection;

use crate::convert::TranscriptKind;

/// Settings of outcomes.
#[derive(Clone, Debug)]
pub struct OutcomesSettings {
    /// Kind of transcripts, if it is not to be detected.
    pub kind: Option<TranscriptKind>,
    /// True to take transcripts alone, and to set the reward of each trajectory by its outcome.
    pub rate: bool,
    /// Reports of graders.
    pub reports: Vec<PathBuf>,
    /// Repositories to compare every session with; if there are none, that of its working directory is taken.
    pub repositories: Vec<PathBuf>,
    /// Days after which a commit is judged.
    pub after_days: u32,
    /// Pull requests that `gh` saved.
    pub pull_requests: Vec<PathBuf>,
    /// Maximum length of a line or document in bytes.
    pub max_line_bytes: usize,
    /// Number of threads; at least one is used.
    pub threads: usize,
    /// What is replaced in the trajectories, once they are judged.
    pub protection: Protection,
}
