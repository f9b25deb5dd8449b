//! Lines of a file that `git blame` follows back to one commit.

use super::history::{At, History};
use super::lines::LineHash;
use super::patch::unquoted;
use super::refusal::Refusal;
use super::repository::Repository;

/// File at a later commit, line by line.
#[derive(Debug, Default)]
pub(super) struct Blame {
    /// Lines that were in the commit, by their path and number there.
    pub(super) origins: Vec<(Vec<u8>, usize)>,
    /// Lines that came later or were elsewhere, blank ones left out.
    pub(super) others: Vec<LineHash>,
}

/// How far blame follows a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Over changes around it, and renames of its file.
    File,
    /// Over moves and copies too, within a file and between files of one commit. It takes several times as long.
    Moves,
}

/// Follow the lines of a file, as it is in commit `seen`, back to commit `origin`; `None` if the file is not there.
pub(super) fn blame(
    repository: &Repository<'_>,
    history: &History,
    (origin, seen): (At, At),
    path: &[u8],
    depth: Depth,
) -> Result<Option<Blame>, Refusal> {
    let origin = &*history.commits[origin].hash;
    // Blame stops at the commit: every line that it had, whoever wrote it, is followed to its place there.
    let range = format!("{origin}..{}", history.commits[seen].hash);
    let mut arguments = ["blame", "-w", "--porcelain", "--no-textconv"].map(text).to_vec();
    if depth == Depth::Moves {
        arguments.extend(["-M", "-C"].map(text));
    }
    arguments.extend([text(&range), text("--"), os(path)]);
    match repository.git.run(&arguments, b"") {
        Err(refusal) if refusal.detail.contains("no such path") => Ok(None),
        output => Ok(Some(parse(&output?, origin))),
    }
}

fn text(text: &str) -> &std::ffi::OsStr {
    std::ffi::OsStr::new(text)
}

#[cfg(unix)]
fn os(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}

#[cfg(not(unix))]
fn os(path: &[u8]) -> &std::ffi::OsStr {
    text(std::str::from_utf8(path).unwrap_or_default())
}

/// Parse the porcelain output: a header of each line, facts of its commit where they are new, and the text
/// behind a tab.
fn parse(output: &[u8], origin: &str) -> Blame {
    let mut blame = Blame::default();
    let mut path = Vec::new();
    let mut number = None;
    for line in output.split(|&byte| byte == b'\n') {
        if let Some(text) = line.strip_prefix(b"\t") {
            match number.take() {
                Some(number) => blame.origins.push((path.clone(), number)),
                None => blame.others.extend(LineHash::new(text)),
            }
        } else if let Some(rest) = line.strip_prefix(origin.as_bytes()) {
            number = std::str::from_utf8(rest).ok().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        } else if let (Some(name), Some(_)) = (line.strip_prefix(b"filename "), number) {
            path = unquoted(name);
        }
    }
    blame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_commit_with_their_places() {
        let (ours, other) = ("1".repeat(40), "2".repeat(40));
        let output = format!(
            "{ours} 3 1 2\nauthor A\nfilename \"a\\nb\"\n\tfirst line\n{ours} 4 2\n\t\n{other} 1 3 1\nfilename c\n\tx\n\
             {ours} 9 4 1\nfilename d\n\tlast line\n"
        );
        let found = parse(output.as_bytes(), &ours);
        assert_eq!(found.origins, [(b"a\nb".to_vec(), 3), (b"a\nb".to_vec(), 4), (b"d".to_vec(), 9)]);
        assert_eq!(found.others, [LineHash::new(b"x").unwrap()]);
    }
}
