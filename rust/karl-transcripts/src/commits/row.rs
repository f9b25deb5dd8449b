//! One commit as a trajectory, in the form of the manual's page `trajectory`.

use std::path::Path;

use serde_json::{Value, json};

use crate::git::Commit;

/// Name of the format in accounts and records.
pub(super) const GIT: &str = "git";

/// Return the line of a commit. `synthetic` is 1, so that a run that wants such rows can take it for their reward.
pub(super) fn row(path: &Path, commit: &Commit, question: &str, answer: &str) -> String {
    let row: Value = json!({
        "karl_fast_trajectory": 1,
        "id": format!("git/{}", commit.hash),
        "group": null,
        "reward": null,
        "synthetic": 1,
        "model": null,
        "policy_version": null,
        "parent": null,
        "session": null,
        "started_at": null,
        "ended_at": null,
        "duration_seconds": null,
        "turns": 1,
        "tool_calls": 0,
        "tokens": {"input": null, "cache_creation": null, "cache_read": null, "output": null},
        "source": {"format": GIT, "files": [path.display().to_string()], "commit": commit.hash, "time": commit.time},
        "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
    });
    row.to_string() + "\n"
}
