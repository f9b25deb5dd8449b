//! verl's `trainer.rollout_data_dir` and `validation_data_dir`: one file per step, `<step>.jsonl`.
//!
//! A record has neither an id nor a prompt id: its id is the hash of its bytes, and its group the step
//! together with the hash of the prompt's text, wherever the rows of a prompt are. A prompt that occurs twice
//! in a batch makes one group. Chats were flattened to text before they were written. `score` is the sum of
//! the scores of all tokens and may be NaN, which counts as missing. Files from before August 2025 have no
//! `gts`, and too few other keys to be detected: they need `--format verl`.

use super::Format;

/// Rollouts of verl (<https://github.com/volcengine/verl>).
pub const VERL: Format = Format {
    name: "verl",
    about: "verl's rollout_data_dir: input, output, gts, score, step",
    signatures: &[&["input", "output", "gts", "score", "step"]],
    group: "step,hash(input)",
    reward: "score",
    prompt: "input",
    completion: "output",
    policy_version: "step",
    ..Format::NOTHING
};
