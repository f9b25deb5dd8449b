//! Repository, opened for reading its objects only.

use std::fs;
use std::path::{Path, PathBuf};

use karl_log::cancel::Watch;
use tempfile::TempDir;

use super::command::{Git, inside};
use super::refusal::{Refusal, Why};

/// Files above this size are compared as a whole, not line by line.
const BIG_FILE: &str = "4m";

/// Repository whose objects are read through a git directory of this program: its own configuration, hooks,
/// attributes, replacements and remotes are out of reach.
#[derive(Debug)]
pub(crate) struct Repository<'w> {
    /// Way to run git on the objects.
    pub(crate) git: Git<'w>,
    /// Commits at the ends of branches, the trunk's first.
    pub(super) tips: Vec<String>,
    /// Removes the git directory at the end.
    _directory: TempDir,
}

impl<'w> Repository<'w> {
    /// Open a repository, which may be bare, or any folder inside of one.
    pub(crate) fn open(path: &Path, watch: &'w Watch) -> Result<Self, Refusal> {
        let folder =
            fs::canonicalize(path).map_err(|error| Refusal::new(path, Why::NoFolder, error.to_string()))?;
        let outer =
            Git { path: path.to_path_buf(), place: inside(&folder), objects: None, index: None, watch };
        if line(&outer, &["rev-parse", "--is-shallow-repository"])? == "true" {
            return Err(Refusal::new(path, Why::Shallow, ""));
        }
        let format = line(&outer, &["rev-parse", "--show-object-format"])?;
        let objects = line(&outer, &["rev-parse", "--path-format=absolute", "--git-path", "objects"])?;
        let tips = tips(&outer)?;
        let directory = git_directory(&format)
            .map_err(|error| Refusal::new(path, Why::Failed, format!("temporary folder: {error}")))?;
        let place = vec![PathBuf::from("--git-dir"), directory.path().to_path_buf()];
        let git = Git { path: path.to_path_buf(), place, objects: Some(objects.into()), index: None, watch };
        Ok(Self { git, tips, _directory: directory })
    }
}

/// Return the git directory that all worktrees of a folder's repository share.
///
/// # Errors
/// If the folder is in no repository.
pub fn shared_directory(folder: &Path, watch: &Watch) -> Result<PathBuf, Refusal> {
    let git = Git { path: folder.to_path_buf(), place: inside(folder), objects: None, index: None, watch };
    line(&git, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).map(PathBuf::from)
}

/// Return the output of a command without its line break.
pub(super) fn line(git: &Git<'_>, arguments: &[&str]) -> Result<String, Refusal> {
    let output = git.run(arguments, b"")?;
    Ok(String::from_utf8_lossy(output.strip_suffix(b"\n").unwrap_or(&output)).into_owned())
}

/// Write a git directory without branches.
pub(super) fn git_directory(format: &str) -> std::io::Result<TempDir> {
    let directory = tempfile::Builder::new().prefix("karl-fast-git").tempdir()?;
    let version = i32::from(format != "sha1");
    let extension =
        if version == 1 { format!("[extensions]\nobjectFormat = {format}\n") } else { String::new() };
    let core =
        format!("[core]\nrepositoryformatversion = {version}\nbare = true\nbigFileThreshold = {BIG_FILE}\n");
    fs::write(directory.path().join("config"), core + &extension)?;
    fs::write(directory.path().join("HEAD"), "ref: refs/heads/none\n")?;
    fs::create_dir(directory.path().join("refs"))?;
    fs::create_dir(directory.path().join("objects"))?;
    Ok(directory)
}

/// Name and commit of a branch, and the branch that it links to.
struct Branch {
    name: String,
    commit: String,
    link: String,
}

/// Return the commits at the ends of branches, the trunk's first.
fn tips(git: &Git<'_>) -> Result<Vec<String>, Refusal> {
    let format = "--format=%(refname) %(objectname) %(symref)";
    let output = git.run(&["for-each-ref", format, "refs/heads", "refs/remotes"], b"")?;
    let branches: Vec<Branch> = String::from_utf8_lossy(&output).lines().filter_map(branch).collect();
    let trunk = trunk(git, &branches)?;
    let mut tips = vec![trunk];
    let others = branches.iter().filter(|branch| !is_of_a_tool(&branch.name));
    tips.extend(others.map(|branch| branch.commit.clone()));
    Ok(tips)
}

fn branch(line: &str) -> Option<Branch> {
    let mut parts = line.split(' ').map(str::to_owned);
    Some(Branch { name: parts.next()?, commit: parts.next()?, link: parts.next().unwrap_or_default() })
}

/// Return whether a branch holds snapshots that a tool made on its own, as Entire does, not work that
/// somebody committed.
fn is_of_a_tool(name: &str) -> bool {
    name.split('/').skip(2).take(2).any(|part| part == "entire")
}

/// Return the end of the trunk: the remote's default branch or its local twin, whichever is ahead; without
/// a remote what is checked out.
fn trunk(git: &Git<'_>, branches: &[Branch]) -> Result<String, Refusal> {
    let find = |name: &str| branches.iter().find(|branch| branch.name == name);
    let remote = find("refs/remotes/origin/HEAD").filter(|branch| !branch.link.is_empty());
    let Some(remote) = remote else { return head(git) };
    let short = remote.link.trim_start_matches("refs/remotes/origin/");
    let Some(local) = find(&format!("refs/heads/{short}")) else { return Ok(remote.commit.clone()) };
    let base = git.run(&["merge-base", &local.commit, &remote.commit], b"").unwrap_or_default();
    let is_behind = base.trim_ascii_end() == local.commit.as_bytes();
    Ok(if is_behind { &remote.commit } else { &local.commit }.clone())
}

fn head(git: &Git<'_>) -> Result<String, Refusal> {
    line(git, &["rev-parse", "--verify", "--quiet", "HEAD"])
        .map_err(|refusal| Refusal { why: Why::NoCommits, ..refusal })
}

#[cfg(test)]
mod tests {
    use super::is_of_a_tool;

    #[test]
    fn snapshots_of_entire_are_no_branches_of_work() {
        assert!(
            is_of_a_tool("refs/heads/entire/checkpoints/v1")
                && is_of_a_tool("refs/remotes/origin/entire/2b4c177")
        );
        assert!(!is_of_a_tool("refs/heads/main") && !is_of_a_tool("refs/remotes/origin/feat/entire"));
    }
}
