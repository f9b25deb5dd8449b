//! `results.jsonl` of `vf-eval -s` of verifiers, and the `train_rollouts.jsonl` that prime-rl wrote in the
//! same form until June 2026.
//!
//! Examples are numbered within one environment, so the number alone would mix the environments of a folder:
//! the prompt is part of the group. The step of a training run is not recorded; rollouts of one example in
//! several steps are one group. Records have no id field: the id is the hash of the bytes. A rollout with an
//! `error` was never scored, and its reward of 0 is meaningless. A truncated one was scored, but is not used
//! for training.

use super::Format;

/// Results of verifiers (<https://github.com/PrimeIntellect-ai/verifiers>).
pub const VERIFIERS: Format = Format {
    name: "verifiers",
    about: "vf-eval's results.jsonl: example_id, prompt, completion, reward",
    signatures: &[
        &[
            "example_id",
            "prompt",
            "completion",
            "reward",
            "timing",
            "is_completed",
            "is_truncated",
            "metrics",
        ],
        &["example_id", "prompt", "completion", "reward", "task", "generation_ms", "scoring_ms", "total_ms"],
    ],
    group: "example_id,hash(prompt)",
    reward: "reward",
    domain: "env_name|task",
    prompt: "prompt",
    completion: "completion",
    tools: "tool_defs|info.oai_tools",
    failed: "error",
    truncated: "is_truncated",
    reasoning: "reasoning_content",
    input_tokens: "token_usage.input_tokens",
    output_tokens: "token_usage.output_tokens",
    ..Format::NOTHING
};
