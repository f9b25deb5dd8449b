//! The two versions of the reward.

/// A version of KARL's reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Three signals, of v1.0.0.
    V1,
    /// Six signals, of the commit c41d1c5.
    V2,
}
