//! Rollouts that Prime Intellect's platform exports from a hosted prime-rl run: `results.jsonl`.
//!
//! The trainer's group is a block of `rollouts_per_example` neighbours in `sample_id`: a problem that occurs
//! twice in a step makes two groups. The size of the block is not in the records, but in `run_manifest.json`
//! beside the file. So here, and in no other format, a group depends on more than its record: the same
//! records without that file have no group, unless `--group run_id,step,problem_id,sample_id//8` gives it.
//!
//! `prompt` and `completion` are lists of messages as JSON texts, and each of their tool calls is a JSON text
//! too. The model's text is often in `reasoning_content` alone: its parser treats text without an
//! end-of-thought marker as reasoning.

use super::{Format, Sidecar};

/// Rollouts of a hosted prime-rl run (<https://github.com/PrimeIntellect-ai/prime-rl>).
pub const PRIME_RL: Format = Format {
    name: "prime-rl",
    about: "rollouts of a hosted prime-rl run: results.jsonl beside run_manifest.json",
    signatures: &[&[
        "run_id",
        "step",
        "problem_id",
        "sample_id",
        "env_name",
        "prompt",
        "completion",
        "reward",
        "advantage",
    ]],
    id: "run_id,step,sample_id",
    group: "run_id,step,problem_id,sample_id//rollouts_per_example",
    sidecar: Some(Sidecar { file: "run_manifest.json", number: "rollouts_per_example" }),
    reward: "reward",
    domain: "env_name",
    prompt: "json(prompt)",
    completion: "json(completion)",
    reasoning: "reasoning_content",
    policy_version: "step",
    input_tokens: "num_input_tokens",
    output_tokens: "num_output_tokens",
    ..Format::NOTHING
};
