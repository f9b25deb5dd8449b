//! KARL's `trajectories.jsonl`, whose records have two forms, often in one file: what its taps write (`skill` an
//! object, `trajectory.events`) and what its extractors write (`skill` a text, `domain` beside it,
//! `trajectory.tool_calls`).
//!
//! No prompt is tried twice in it. KARL holds a reward against the mean of its domain, so the domain is the group,
//! and `--score centre` is the advantage of its exporter. A record without one has no group.
//!
//! The taps keep no words of the model, so what is learnt is KARL's own lesson: the prompt, and the plan of tool
//! calls that followed. The plan says nothing of success or reward, as KARL's did. Where a response was kept, it is
//! the completion instead.

use super::Format;

/// Trajectories of KARL (<https://github.com/Diomandeee/karl>).
pub const KARL: Format = Format {
    name: "karl",
    about: "KARL's trajectories.jsonl, as its taps or its extractors wrote it",
    signatures: &[
        &[
            "id",
            "session_id",
            "channel",
            "recorded_at",
            "skill",
            "context",
            "trajectory",
            "outcome",
            "timing",
        ],
        &["id", "session_id", "skill", "domain", "trajectory", "context", "timing", "outcome"],
    ],
    id: "id",
    group: "domain|skill.domain",
    reward: "outcome.reward_score|reward_score",
    domain: "domain|skill.domain",
    prompt: "context.prompt_text|trajectory.prompt",
    completion: "trajectory.response|plan(trajectory.events)|plan(trajectory.tool_calls)",
    ..Format::NOTHING
};
