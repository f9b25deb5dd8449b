//! Settings of a conversion.

use karl_redact::Protection;
use karl_reward::Version;

use super::tool_kind::TranscriptKind;

/// Settings of a conversion.
#[derive(Clone, Debug)]
pub struct ConvertSettings {
    /// Kind of all files, if it is not to be detected.
    pub kind: Option<TranscriptKind>,
    /// Source of rewards.
    pub rate: Rate,
    /// Maximum length of a line or document in bytes.
    pub max_line_bytes: usize,
    /// Number of threads; at least one is used.
    pub threads: usize,
    /// True to write also the branches of sessions that the user abandoned, each behind its session.
    pub abandoned: bool,
    /// What is replaced in the trajectories.
    pub protection: Protection,
}

/// Source of a trajectory's reward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Reward in the log, if present.
    Log,
    /// End of the run, if in the log: 1 for success, else 0.
    Result,
    /// KARL's reward of the tool calls; the weights are those of v1.
    Karl(Version, [f64; 3]),
}
