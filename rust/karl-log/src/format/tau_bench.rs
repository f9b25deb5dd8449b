//! tau-bench's `historical_trajectories` and the checkpoints of its `run.py`: one JSON array of results.
//!
//! The same task is run in several trials, so the task is the group. A trajectory ends with a turn of the
//! user or the environment (`###STOP###`), which is not trained on: export trims it.

use super::Format;

/// Results of tau-bench (<https://github.com/sierra-research/tau-bench>).
pub const TAU_BENCH: Format = Format {
    name: "tau-bench",
    about: "tau-bench results: task_id, trial, traj, reward",
    signatures: &[&["task_id", "trial", "traj", "reward"]],
    id: "task_id,trial",
    group: "task_id",
    reward: "reward",
    messages: "traj",
    ..Format::NOTHING
};
