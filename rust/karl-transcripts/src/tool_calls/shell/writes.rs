//! Files that a simple command changes, and changes of a whole working tree by git.

use super::SimpleCommand;
use super::program::{base, strip_starters};
use crate::tool_calls::edits::{EditedFile, patch_edits};

/// Commands that change the files they name.
const CHANGING: [&str; 5] = ["mv", "cp", "patch", "truncate", "rsync"];

/// Change of a working tree by git that is not an edit of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TreeChange {
    /// Another branch or commit, by its name.
    Switch(String),
    /// New branch at the same commit.
    Branch(String),
    /// Changes put aside.
    Stash,
    /// Changes taken back.
    Unstash,
    /// Another branch joined with this one.
    Join,
}

/// Options of git itself that take a value.
const GIT_VALUED: [&str; 5] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace"];

/// Return the subcommand of git, and what is behind it.
fn git(step: &SimpleCommand) -> Option<(&str, Vec<&str>)> {
    let words = strip_starters(&step.words);
    let (_, mut rest) = words.split_first().filter(|(name, _)| base(name) == "git")?;
    while let Some(option) = rest.first().filter(|word| word.starts_with('-')) {
        rest = rest.get(if GIT_VALUED.contains(option) { 2 } else { 1 }..)?;
    }
    let (verb, rest) = rest.split_first()?;
    Some((verb, rest.to_vec()))
}

/// Return how a command changes the working tree as a whole, given the output of its line.
pub(crate) fn tree_change(step: &SimpleCommand, output: &str) -> Option<TreeChange> {
    let Some((verb, rest)) = git(step) else { return pull_request(step) };
    let has = |flags: &[&str]| rest.iter().any(|word| flags.contains(word));
    let operands: Vec<&str> =
        rest.iter().copied().filter(|word| *word == "-" || !word.starts_with('-')).collect();
    match verb {
        "checkout" | "switch" if has(&["-b", "-B", "-c", "-C", "--orphan"]) => match operands[..] {
            [name] => Some(TreeChange::Branch(name.to_owned())),
            [name, ..] => Some(TreeChange::Switch(name.to_owned())),
            [] => None,
        },
        "checkout" if restores_files(&rest, &operands, output) => None,
        "checkout" | "switch" => operands.first().map(|name| TreeChange::Switch((*name).to_owned())),
        "stash" => match operands.first() {
            None | Some(&("push" | "save")) => Some(TreeChange::Stash),
            Some(&("pop" | "apply")) => Some(TreeChange::Unstash),
            Some(_) => None,
        },
        "merge" | "rebase" => Some(TreeChange::Join),
        _ => None,
    }
}

/// Return the change of `gh pr checkout`.
fn pull_request(step: &SimpleCommand) -> Option<TreeChange> {
    match &strip_starters(&step.words)[..] {
        ["gh", "pr", "checkout" | "co", rest @ ..] => {
            Some(TreeChange::Switch(rest.first().copied().unwrap_or_default().to_owned()))
        }
        _ => None,
    }
}

/// Lines of git about another branch.
const SWITCHED: [&str; 6] = [
    "Switched to branch",
    "Switched to a new branch",
    "Already on",
    "HEAD is now at",
    "Your branch is",
    "Note: switching to",
];

/// Return whether `git checkout` takes files of a commit, and stays on its branch.
fn restores_files(rest: &[&str], operands: &[&str], output: &str) -> bool {
    let begins = |text: &&str| output.lines().any(|line| line.starts_with(text));
    if rest.contains(&"--")
        || rest.iter().any(|word| matches!(*word, "-p" | "--patch" | "--ours" | "--theirs"))
    {
        return true;
    }
    if SWITCHED.iter().any(begins) {
        return false;
    }
    // Without a word of git, a name of a file and a second operand are files.
    let is_file = |name: &&str| {
        *name == "."
            || name.rsplit('/').next().is_some_and(|last| {
                last.split_once('.').is_some_and(|(stem, end)| {
                    !stem.is_empty() && end.bytes().all(|byte| byte.is_ascii_alphabetic())
                })
            })
    };
    output.lines().any(|line| line.starts_with("Updated "))
        || operands.len() > 1
        || operands.first().is_some_and(is_file)
}

/// Return the files that a command changes, with the new lines where it has them; an empty path if it changes
/// files that it does not name.
pub(crate) fn shell_edits(step: &SimpleCommand, output: &str) -> Vec<EditedFile> {
    let here = step.here.as_deref().unwrap_or_default();
    let mut edits: Vec<_> =
        step.writes.iter().filter(|path| !is_device(path)).map(|path| EditedFile::new(path, here)).collect();
    let mut words = step.words.iter().map(String::as_str);
    let operands = || step.words.iter().skip(1).map(String::as_str).filter(|word| !word.starts_with('-'));
    let last = || operands().next_back().map(|path| EditedFile::new(path, ""));
    match words.next().map(|word| word.rsplit('/').next().unwrap_or(word)) {
        Some("tee") => {
            edits.extend(operands().filter(|path| !is_device(path)).map(|path| EditedFile::new(path, here)));
        }
        Some("sed" | "perl" | "gsed") if words.any(in_place) => edits.extend(last()),
        Some("apply_patch") => {
            edits.extend(patch_edits(step.here.as_deref().or(operands().next()).unwrap_or_default()));
        }
        Some("rm" | "rmdir" | "unlink") => edits.extend(operands().map(EditedFile::deletion)),
        Some("git") if git_changes(step, output) => edits.extend(git_edits(step)),
        Some(command) if CHANGING.contains(&command) => edits.extend(last()),
        _ => {}
    }
    edits
}

fn in_place(word: &str) -> bool {
    word.starts_with("-i") || word == "--in-place" || word.starts_with("-pi")
}

fn is_device(path: &str) -> bool {
    path.starts_with("/dev/") || path.starts_with('&') || path.is_empty()
}

/// Return the files that a command of git deletes; else an edit of files that it does not name.
fn git_edits(step: &SimpleCommand) -> Vec<EditedFile> {
    match git(step) {
        Some(("rm", rest)) => {
            rest.into_iter().filter(|word| !word.starts_with('-')).map(EditedFile::deletion).collect()
        }
        _ => vec![EditedFile::default()],
    }
}

/// Return whether a command of git changes files to something that no run has seen.
fn git_changes(step: &SimpleCommand, output: &str) -> bool {
    let Some((verb, rest)) = git(step) else { return false };
    let has = |flags: &[&str]| rest.iter().any(|word| flags.contains(word));
    match verb {
        "checkout" => tree_change(step, output).is_none(),
        "reset" => has(&["--hard", "--merge", "--keep"]),
        "restore" => !has(&["--staged", "-S"]) || has(&["--worktree", "-W"]),
        "rm" => !has(&["--cached"]),
        "apply" => !has(&["--check", "--stat", "--numstat", "--summary", "--cached"]),
        "cherry-pick" | "revert" | "am" | "mv" | "clean" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::CommandLine;
    use super::*;

    #[test]
    fn changed_files_by_hand() {
        let some = |path: &str, lines: &[&str]| {
            vec![(path.to_owned(), lines.iter().map(|&line| line.into()).collect())]
        };
        for (text, wanted) in [
            ("cat > a.py <<'EOF'\nx\ny\nEOF", some("a.py", &["x", "y"])),
            ("tee -a a.py <<EOF\nx\nEOF", some("a.py", &["x"])),
            ("echo x >> a.py", some("a.py", &[])),
            ("sed -i 's/a/b/' a.py", some("a.py", &[])),
            ("sed -i.bak -e s/a/b/ a.py", some("a.py", &[])),
            ("mv a b.py", some("b.py", &[])),
            ("rm -f a.py", some("a.py", &[])),
            ("git rm -rq old/", some("old", &[])),
            ("git checkout a.py", some("", &[])),
            ("git checkout main -- a.py", some("", &[])),
            ("git -C folder checkout .", some("", &[])),
            ("git checkout main", vec![]),
            ("git pull --rebase", vec![]),
            ("git log merge", vec![]),
            ("git reset --hard HEAD", some("", &[])),
            (
                "apply_patch <<'E'\n*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\nE",
                some("a.py", &["x"]),
            ),
            ("make > /dev/null 2>&1", vec![]),
            ("sed -n 1p a.py", vec![]),
            ("git checkout -b new", vec![]),
            ("git reset HEAD a.py", vec![]),
            ("git stash list", vec![]),
            ("git commit -m 'checkout of merge'", vec![]),
            ("pytest", vec![]),
        ] {
            let edits = CommandLine::parse(text)
                .steps
                .iter()
                .flat_map(|step| shell_edits(step, ""))
                .collect::<Vec<_>>();
            let found: Vec<_> = edits.into_iter().map(|edit| (edit.path, edit.added)).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }

    #[test]
    fn changes_of_the_tree_by_hand() {
        let switch = |name: &str| Some(TreeChange::Switch(name.to_owned()));
        for (text, output, wanted) in [
            ("git checkout main", "", switch("main")),
            ("git checkout v1.2", "Note: switching to 'v1.2'.", switch("v1.2")),
            ("git checkout release/2.0", "", switch("release/2.0")),
            ("git switch -", "", switch("-")),
            ("git -C a -c x.y=z checkout -q main", "", switch("main")),
            ("git checkout -b new", "", Some(TreeChange::Branch("new".to_owned()))),
            ("git switch -c new origin/main", "", switch("new")),
            ("gh pr checkout 12", "", switch("12")),
            ("git checkout Makefile", "Updated 1 path from the index", None),
            ("git checkout HEAD~1 src", "", None),
            ("git checkout -- a", "", None),
            ("git stash", "", Some(TreeChange::Stash)),
            ("git stash push -m x", "", Some(TreeChange::Stash)),
            ("git stash pop", "", Some(TreeChange::Unstash)),
            ("git stash list", "", None),
            ("git merge work", "", Some(TreeChange::Join)),
            ("git pull origin main", "", None),
            ("git status", "", None),
        ] {
            assert_eq!(tree_change(&CommandLine::parse(text).steps[0], output), wanted, "{text}");
        }
    }
}
