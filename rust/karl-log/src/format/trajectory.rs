//! Canonical trajectories, one per line, as `karl-fast convert` writes them. The manual's page `trajectory`
//! defines them.
//!
//! Version 1 is supported, and every later one in which the keys below have the same meaning.

use super::Format;

/// Canonical trajectories.
pub const TRAJECTORY: Format = Format {
    name: "trajectory",
    about: "canonical trajectories, as karl-fast convert writes them",
    signatures: &[&["karl_fast_trajectory", "id", "messages"]],
    id: "id",
    group: "group",
    reward: "reward",
    domain: "source.format",
    messages: "messages",
    tools: "tools",
    ..Format::NOTHING
};
