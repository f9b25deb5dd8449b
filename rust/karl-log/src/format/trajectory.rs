//! What `karl-fast convert` writes: the canonical trajectory, one a line. The manual's page `trajectory` defines it.
//!
//! Version 1 is read, and so is every later one whose keys below mean the same.

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
