//! State of a repository at one moment, for a later attribution of commits.

use std::fs;
use std::path::{Path, PathBuf};

use karl_core::rng::id128;
use karl_log::cancel::Watch;
use serde::{Deserialize, Serialize};

use super::command::{Git, inside};
use super::refusal::{Refusal, Why};
use super::repository::{git_directory, line};

/// State without any difference from the commit.
const CLEAN: &str = "clean";

/// State of a repository; every field is absent where it is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Git directory that all worktrees share.
    pub repository: Option<String>,
    /// Address of the remote `origin`, without a user and password.
    pub remote: Option<String>,
    /// Commit that is checked out.
    pub commit: Option<String>,
    /// Branch that is checked out.
    pub branch: Option<String>,
    /// Hash of the names and contents that differ from the commit; `clean` if nothing does.
    pub dirty: Option<String>,
}

/// Return the state of the repository of a folder. Only its objects, its index and its files are read: its
/// configuration names no filter, hook or monitor that is executed.
///
/// # Errors
/// If the folder is in no repository.
pub fn snapshot(folder: &Path, watch: &Watch) -> Result<Snapshot, Refusal> {
    let git = Git { path: folder.to_path_buf(), place: inside(folder), objects: None, index: None, watch };
    let shared = line(&git, &["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
    let asked = |arguments: &[&str]| line(&git, arguments).ok().filter(|answer| !answer.is_empty());
    let commit = asked(&["rev-parse", "--verify", "--quiet", "HEAD"]);
    let dirty = commit.as_ref().and_then(|commit| dirty(&git, commit).ok());
    Ok(Snapshot {
        repository: Some(shared),
        remote: asked(&["config", "--get", "remote.origin.url"]).map(|address| without_user(&address)),
        branch: asked(&["symbolic-ref", "--quiet", "--short", "HEAD"]),
        commit,
        dirty,
    })
}

/// Return a hash of what differs from a commit.
fn dirty(outer: &Git<'_>, commit: &str) -> Result<String, Refusal> {
    let path = |name: &str| line(outer, &["rev-parse", "--path-format=absolute", "--git-path", name]);
    let top = line(outer, &["rev-parse", "--show-toplevel"])?;
    let format = line(outer, &["rev-parse", "--show-object-format"])?;
    let directory = git_directory(&format)
        .map_err(|error| Refusal::new(&outer.path, Why::Failed, format!("temporary folder: {error}")))?;
    // A bare directory has no working tree; this one has the user's.
    fs::write(directory.path().join("HEAD"), format!("{commit}\n"))
        .map_err(|error| Refusal::new(&outer.path, Why::Failed, error.to_string()))?;
    let place = vec![
        PathBuf::from("-c"),
        PathBuf::from("core.bare=false"),
        PathBuf::from("--git-dir"),
        directory.path().to_path_buf(),
        PathBuf::from("--work-tree"),
        PathBuf::from(&top),
        PathBuf::from("-C"),
        PathBuf::from(&top),
    ];
    let (objects, index) = (Some(path("objects")?.into()), Some(path("index")?.into()));
    let git = Git { path: outer.path.clone(), place, objects, index, watch: outer.watch };
    // Inside of a submodule git would read its configuration.
    let status = git.run(&["status", "--porcelain=v2", "-z", "--ignore-submodules=all"], b"")?;
    if status.is_empty() {
        return Ok(CLEAN.to_owned());
    }
    let same = ["diff", "--no-ext-diff", "--no-textconv", "--binary", "--ignore-submodules=all", commit];
    let changes = git.run(&same, b"")?;
    Ok(format!("{:032x}", id128(&[status, changes].concat())))
}

/// Return an address without a user and password.
fn without_user(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}/{path}")
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_user;

    #[test]
    fn an_address_keeps_no_password() {
        for (address, wanted) in [
            ("https://user:word@host/a/b.git", "https://host/a/b.git"),
            ("https://host/a@b.git", "https://host/a@b.git"),
            ("git@host:a/b.git", "git@host:a/b.git"),
            ("/folder/a@b", "/folder/a@b"),
        ] {
            assert_eq!(without_user(address), wanted);
        }
    }
}
