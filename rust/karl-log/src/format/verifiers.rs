//! What `vf-eval -s` of verifiers saves, `results.jsonl`, and the `train_rollouts.jsonl` that prime-rl wrote in the
//! same form until June 2026.
//!
//! An example is numbered within one environment, so its number alone would mix the environments of a folder: the
//! prompt belongs to the group. The step of a training run stands in no record; rollouts of one example in several
//! steps are one group. No field names a record: its id is the hash of its bytes. A rollout with an `error` was never
//! scored, and its reward of 0 says nothing. One that was cut short was scored, but is nothing to learn from.

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
