//! TRL's `log_completions` of GRPO and RLOO: `completions/completions_STEP.parquet`, a row a completion.
//!
//! Parquet comes as lines, a key a column. Each reward function has a column of its own, and their weights stand nowhere:
//! `trl_reward` is their plain sum, put in where the table is read, as TRL's own default is. The group is the step together
//! with the hash of the prompt's text.

use super::Format;

/// Completions of TRL (<https://github.com/huggingface/trl>).
pub const TRL: Format = Format {
    name: "trl",
    about: "TRL's log_completions: completions_STEP.parquet, with step, prompt, completion, advantage",
    signatures: &[&["step", "prompt", "completion", "advantage", "trl_reward"]],
    group: "step,hash(prompt)",
    reward: "trl_reward",
    prompt: "prompt",
    completion: "completion",
    policy_version: "step",
    ..Format::NOTHING
};
