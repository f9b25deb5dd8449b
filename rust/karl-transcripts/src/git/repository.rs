//! Repository, read by the command `git`: its objects only, or its state at one moment; and why it may be refused.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use std::{fmt, fs, thread};

use karl_core::rng::id128;
use karl_log::cancel::Watch;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

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
        let outer = Git {
            path: path.to_path_buf(),
            place: folder_arguments(&folder),
            objects: None,
            index: None,
            watch,
        };
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
    let git = Git {
        path: folder.to_path_buf(),
        place: folder_arguments(folder),
        objects: None,
        index: None,
        watch,
    };
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

/// Most bytes that one command may write.
const MOST_BYTES: u64 = 2 << 30;

/// Time between two checks for cancellation, and most of them: ten minutes.
const TICK: Duration = Duration::from_millis(50);
const MOST_TICKS: u32 = 12_000;

/// Variables of the environment that git keeps. The last two are for git of Apple and of Windows.
const KEPT: [&str; 5] = ["PATH", "HOME", "TMPDIR", "DEVELOPER_DIR", "SYSTEMROOT"];

/// Values that switch off whatever git could execute, ask or write.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("XDG_CONFIG_HOME", "/dev/null"),
    ("LC_ALL", "C"),
];

/// Settings of every command. Whoever owns the repository, it is only read: `safe.directory` protects from
/// executing its configuration, which is not done here.
const SETTINGS: [&str; 4] =
    ["safe.directory=*", "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.attributesFile=/dev/null"];

/// Way to run git on one repository: its objects are read, and nothing of it is executed.
///
/// Every environment variable of git, and the user's and the system's configuration are left out. Hooks, the
/// pager, the file system monitor and lazy fetches are off. A [`Repository`] adds the rest: it reads the objects
/// through a git directory of its own, so that the repository's configuration is not there either.
#[derive(Debug)]
pub(crate) struct Git<'w> {
    /// Repository as the user named it, for messages.
    pub(super) path: PathBuf,
    /// Arguments in front of the command.
    pub(super) place: Vec<PathBuf>,
    /// Objects of the repository, if they are read through another git directory.
    pub(super) objects: Option<PathBuf>,
    /// Index of the repository, if its files are compared through another git directory.
    pub(super) index: Option<PathBuf>,
    /// Cancellation.
    pub(super) watch: &'w Watch,
}

impl Git<'_> {
    /// Run a command with `input` on its standard input; return its output.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut child = self
            .command(arguments)
            .spawn()
            .map_err(|error| Refusal::new(&self.path, Why::NoGit, error.to_string()))?;
        let outcome = self.exchange(&mut child, input);
        if outcome.is_err() {
            // It may have ended already.
            let _ = child.kill();
        }
        let ended = child.wait();
        let (output, errors) = outcome?;
        match ended {
            Ok(status) if status.success() => Ok(output),
            Ok(_) => Err(Refusal::of_git(&self.path, &errors)),
            Err(error) => Err(Refusal::new(&self.path, Why::Failed, error.to_string())),
        }
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new("git");
        command.env_clear().envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(ENVIRONMENT).arg("--no-pager");
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.args(&self.place).args(arguments);
        if let Some(objects) = &self.objects {
            command.env("GIT_OBJECT_DIRECTORY", objects);
        }
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Write the input and read both outputs at once, so that no pipe fills up.
    fn exchange(&self, child: &mut Child, input: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
        let output = read_on_thread(child.stdout.take(), MOST_BYTES + 1);
        let errors = read_on_thread(child.stderr.take(), 1 << 16);
        let mut stdin = child.stdin.take();
        thread::scope(|scope| {
            scope.spawn(move || {
                // A command that ends early closes the pipe: its exit status says why.
                let _ = stdin.as_mut().map(|stdin| stdin.write_all(input));
            });
            let output = self.wait(&output, child)?;
            if output.len() as u64 > MOST_BYTES {
                let _ = child.kill();
                return Err(Refusal::new(&self.path, Why::TooLarge, ""));
            }
            Ok((output, self.wait(&errors, child)?))
        })
    }

    /// Wait for an output; kill the command if it takes too long or the caller cancels.
    fn wait(&self, from: &Receiver<Vec<u8>>, child: &mut Child) -> Result<Vec<u8>, Refusal> {
        for _ in 0..=MOST_TICKS {
            match from.recv_timeout(TICK) {
                Ok(bytes) => return Ok(bytes),
                Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
                Err(RecvTimeoutError::Timeout) if self.watch.is_stopped() => {
                    let _ = child.kill();
                    return Err(Refusal::new(&self.path, Why::Interrupted, ""));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let _ = child.kill();
        Err(Refusal::new(&self.path, Why::TimedOut, ""))
    }
}

/// Read a pipe on a thread of its own, at most `most` bytes of it.
fn read_on_thread(pipe: Option<impl Read + Send + 'static>, most: u64) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read so far counts; the exit status tells of a failure.
            let _ = pipe.take(most).read_to_end(&mut bytes);
        }
        // The receiver is gone if the command was cancelled.
        let _ = send.send(bytes);
    });
    receive
}

/// Return the arguments `-C path`.
pub(super) fn folder_arguments(path: &Path) -> Vec<PathBuf> {
    vec![PathBuf::from("-C"), path.to_path_buf()]
}

/// Repository that cannot be read, with the reason.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Repository.
    pub path: PathBuf,
    /// Reason.
    pub why: Why,
    /// Message of git or of the system; may be empty.
    pub detail: String,
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Folder missing, or a link that leads nowhere.
    NoFolder,
    /// Folder outside of any repository.
    NoRepository,
    /// Repository without a commit.
    NoCommits,
    /// Shallow clone: its oldest commits would count as the authors of every line.
    Shallow,
    /// Commit, tree or file that the object store lacks, as in a partial clone.
    MissingObject,
    /// Command `git` missing or too old.
    NoGit,
    /// More output than one command may have.
    TooLarge,
    /// Command of git that did not end in time.
    TimedOut,
    /// Other failure of git.
    Failed,
    /// Cancellation by the caller.
    Interrupted,
}

impl Why {
    /// Return the name in accounts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFolder => "no_folder",
            Self::NoRepository => "no_repository",
            Self::NoCommits => "no_commits",
            Self::Shallow => "shallow_clone",
            Self::MissingObject => "missing_object",
            Self::NoGit => "no_git",
            Self::TooLarge => "too_large",
            Self::TimedOut => "timed_out",
            Self::Failed => "git_failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Return the problem and what to do about it.
    const fn problem(self) -> &'static str {
        match self {
            Self::NoFolder => "the folder cannot be opened; check the path",
            Self::NoRepository => {
                "it is not in a git repository; name the folder that holds .git, or a bare one"
            }
            Self::NoCommits => "the repository has no commits; name the one that the sessions worked in",
            Self::Shallow => "it is a shallow clone; run `git fetch --unshallow` there first",
            Self::MissingObject => {
                "objects are missing, as in a partial clone, and nothing is fetched; clone it in full"
            }
            Self::NoGit => "the command git 2.36 or newer is needed; install it, or leave out the repository",
            Self::TooLarge => "a command of git wrote more than 2 GiB; name a smaller repository",
            Self::TimedOut => {
                "a command of git took more than ten minutes; run `git gc` there, and try again"
            }
            Self::Failed => "git failed; run `git fsck` there",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Refusal {
    /// Create a refusal.
    pub(super) fn new(path: &Path, why: Why, detail: impl Into<String>) -> Self {
        Self { path: path.to_path_buf(), why, detail: detail.into() }
    }

    /// Return a failure of git, named by its message.
    pub(super) fn of_git(path: &Path, stderr: &[u8]) -> Self {
        let text = String::from_utf8_lossy(stderr);
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let why = if has(&["not a git repository"]) {
            Why::NoRepository
        } else if has(&["missing", "bad object", "unable to read", "could not fetch", "lazy fetching"]) {
            Why::MissingObject
        } else if has(&["unknown option", "unrecognized argument", "unknown switch"]) {
            Why::NoGit
        } else {
            Why::Failed
        };
        // Hints and warnings come first.
        let fatal = text.lines().rfind(|line| line.starts_with("fatal: ")).or_else(|| text.lines().last());
        Self::new(path, why, fatal.unwrap_or_default())
    }
}

impl Refusal {
    /// Return the problem, and what to do about it.
    #[must_use]
    pub fn problem(&self) -> String {
        let problem = self.why.problem();
        // Git's words hold names of the repository: escapes keep them off the terminal.
        if self.detail.is_empty() {
            problem.to_owned()
        } else {
            format!("{problem} ({})", self.detail.escape_debug())
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display().to_string().escape_debug(), self.problem())
    }
}

impl std::error::Error for Refusal {}

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
    let git = Git {
        path: folder.to_path_buf(),
        place: folder_arguments(folder),
        objects: None,
        index: None,
        watch,
    };
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
    use super::{is_of_a_tool, without_user};

    #[test]
    fn snapshots_of_entire_are_no_branches_of_work() {
        assert!(
            is_of_a_tool("refs/heads/entire/checkpoints/v1")
                && is_of_a_tool("refs/remotes/origin/entire/2b4c177")
        );
        assert!(!is_of_a_tool("refs/heads/main") && !is_of_a_tool("refs/remotes/origin/feat/entire"));
    }

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
