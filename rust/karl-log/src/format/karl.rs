//! KARL's `trajectories.jsonl`. Its records have two forms, often in one file: those of its taps (`skill` an
//! object, `trajectory.events`) and those of its extractors (`skill` a text, `domain` beside it,
//! `trajectory.tool_calls`).
//!
//! No prompt is attempted twice. KARL compares a reward with the mean of its domain, so the domain is the
//! group, and `--score centre` is the advantage of its exporter. A record without a domain has no group.
//!
//! The taps record no text of the model, so the training example is KARL's own: the prompt, and the plan of
//! tool calls that followed. As in KARL, the plan mentions neither success nor reward. A recorded response is
//! used as the completion instead.

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
