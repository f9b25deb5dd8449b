//! Files that a simple command changes.

use super::line::SimpleCommand;
use crate::outcomes::edits::{EditedFile, patched};

/// Commands that change the files they name.
const CHANGING: [&str; 6] = ["mv", "cp", "rm", "patch", "truncate", "rsync"];

/// Subcommands of git that change the working tree. `checkout -b` and the soft resets do not.
const GIT: [&str; 14] = [
    "checkout",
    "switch",
    "restore",
    "reset",
    "stash",
    "merge",
    "rebase",
    "pull",
    "cherry-pick",
    "revert",
    "apply",
    "am",
    "rm",
    "mv",
];

/// Return the files that a command changes, with the new lines where it has them; an empty path if it changes
/// files that it does not name.
pub(in crate::outcomes) fn shell_edits(step: &SimpleCommand) -> Vec<EditedFile> {
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
            edits.extend(patched(step.here.as_deref().or(operands().next()).unwrap_or_default()));
        }
        Some("git") if git_changes(step) => edits.push(EditedFile::default()),
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

fn git_changes(step: &SimpleCommand) -> bool {
    // Past options of git itself: `git -C folder checkout`.
    let verb = step.words.iter().skip(1).position(|word| GIT.contains(&word.as_str()));
    let Some(at) = verb.map(|at| at + 1) else { return false };
    let rest = &step.words[at + 1..];
    let has = |flags: &[&str]| rest.iter().any(|word| flags.contains(&word.as_str()));
    match step.words[at].as_str() {
        "checkout" | "switch" => !has(&["-b", "-B", "-c", "-C"]),
        "reset" => has(&["--hard", "--merge", "--keep"]),
        "stash" => !has(&["list", "show", "drop", "clear"]),
        "restore" => !has(&["--staged", "-S"]) || has(&["--worktree", "-W"]),
        "rm" => !has(&["--cached"]),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::CommandLine;
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
            ("git checkout main", some("", &[])),
            ("git -C folder stash pop", some("", &[])),
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
            let edits = CommandLine::parse(text).steps.iter().flat_map(shell_edits).collect::<Vec<_>>();
            let found: Vec<_> = edits.into_iter().map(|edit| (edit.path, edit.added)).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }
}
