//! TRL's `log_completions` of GRPO and RLOO: `completions/completions_STEP.parquet`, one row per completion.
//!
//! Parquet is read as lines, one key per column. Each reward function has a column, and the weights are not
//! recorded: `trl_reward` is the unweighted sum, added when the table is read, as TRL's own default is. The
//! group is the step together with the hash of the prompt's text.

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
