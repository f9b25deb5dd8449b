//! Lines of a file that `git blame` follows back to one commit.

use super::history::{At, History};
use super::patch::unquote;
use super::repository::{Refusal, Repository};

/// Place of a line in a commit: path and number.
pub(crate) type Place = (Vec<u8>, usize);

/// Find the lines of a file, as it is in commit `seen`, that commit `origin` wrote; `None` if the file is not there.
/// They are those of `git blame -w -M -C`: white space does not count, and lines are followed over moves and copies
/// within a file and between the files of one commit, both after `origin` and by `origin` itself.
pub(crate) fn blame(
    repository: &Repository<'_>,
    history: &History,
    (origin, seen): (At, At),
    path: &[u8],
) -> Result<Option<Vec<Place>>, Refusal> {
    let (origin, seen) = (&history.commits[origin], &history.commits[seen].hash);
    // Blame stops at the parent: what the commit found there is not its own, whoever wrote it.
    let range = origin.parents.first().map_or_else(|| seen.clone(), |parent| format!("{parent}..{seen}"));
    let mut arguments = ["blame", "-w", "-M", "-C", "--porcelain", "--no-textconv"].map(text).to_vec();
    arguments.extend([text(&range), text("--"), os(path)]);
    match repository.git.run(&arguments, b"") {
        Err(refusal) if refusal.detail.contains("no such path") => Ok(None),
        output => Ok(Some(parse(&output?, &origin.hash))),
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
fn parse(output: &[u8], origin: &str) -> Vec<Place> {
    let mut places = Vec::new();
    let mut path = Vec::new();
    let mut number = None;
    for line in output.split(|&byte| byte == b'\n') {
        if line.starts_with(b"\t") {
            places.extend(number.take().map(|number| (path.clone(), number)));
        } else if let Some(rest) = line.strip_prefix(origin.as_bytes()) {
            number = std::str::from_utf8(rest).ok().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        } else if let (Some(name), Some(_)) = (line.strip_prefix(b"filename "), number) {
            path = unquote(name);
        }
    }
    places
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
        assert_eq!(found, [(b"a\nb".to_vec(), 3), (b"a\nb".to_vec(), 4), (b"d".to_vec(), 9)]);
    }
}
