//! Answer from the diff of a commit.

use crate::convert::Made;

/// Reason to drop a commit whose diff is too long for an answer.
pub(super) const LARGE: &str = "large_change";

/// Lines of an answer, as KARL bounds them.
const LINES: std::ops::RangeInclusive<usize> = 5..=200;

/// Folders and endings of files that a tool writes.
const FOLDERS: [&str; 6] = ["node_modules", "__pycache__", "dist", "build", ".next", "vendor"];
const ENDINGS: [&str; 8] = [
    ".lock",
    "package-lock.json",
    "pnpm-lock.yaml",
    "go.sum",
    ".min.js",
    ".min.css",
    ".tsbuildinfo",
    ".DS_Store",
];

/// Start of the diff of one file.
const FILE: &str = "diff --git ";

/// Return the answer in a diff, or the reason why there is none. Files that a tool writes and files that are no
/// text are left out and counted.
pub(super) fn answer(diff: &[u8], made: &mut Made) -> Result<String, &'static str> {
    let diff = std::str::from_utf8(diff).map_err(|_| "not_utf8")?;
    let (mut answer, mut generated) = (String::new(), false);
    for file in files(diff) {
        if is_generated(file) {
            generated = true;
            made.note("generated_file");
        } else if !file.contains("\n@@ ") {
            made.note("file_without_text");
        } else {
            answer.push_str(&without_hashes(file));
        }
    }
    match answer.lines().count() {
        0 if generated => Err("generated"),
        0 => Err("no_text"),
        count if count < *LINES.start() => Err("small_change"),
        count if count > *LINES.end() => Err(LARGE),
        _ => Ok(answer),
    }
}

/// Return the diff of each file.
fn files(diff: &str) -> Vec<&str> {
    let inner = diff.match_indices(&format!("\n{FILE}")).map(|(at, _)| at + 1).collect::<Vec<_>>();
    let starts: Vec<usize> = [0].into_iter().chain(inner).collect();
    let ends = starts.iter().skip(1).copied().chain([diff.len()]);
    let parts = starts.iter().zip(ends).map(|(&start, end)| &diff[start..end]);
    parts.filter(|part| part.starts_with(FILE)).collect()
}

/// Return whether a tool writes the file of a diff.
fn is_generated(file: &str) -> bool {
    let header = file.lines().next().unwrap_or_default();
    let path = header.rsplit(" b/").next().unwrap_or_default().trim_end_matches('"');
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders.split('/').any(|folder| FOLDERS.contains(&folder))
        || ENDINGS.iter().any(|end| path.ends_with(end))
}

/// Return the diff of a file without the hashes of its contents, which follow from nothing in the question.
fn without_hashes(file: &str) -> String {
    let hunks = file.find("\n@@ ").unwrap_or(file.len());
    let header = file[..hunks].split_inclusive('\n').filter(|line| !line.starts_with("index "));
    header.collect::<String>() + &file[hunks..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(path: &str, added: usize) -> String {
        let lines = "+x\n".repeat(added);
        format!(
            "diff --git a/{path} b/{path}\nindex 1..2 100644\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n{lines}"
        )
    }

    #[test]
    fn an_answer_is_the_text_of_what_people_write() {
        let (wanted, mut made) = (diff("a.py", 1).replace("index 1..2 100644\n", ""), Made::default());
        let binary = "diff --git a/i.png b/i.png\nindex 1..2\nBinary files a/i.png and b/i.png differ\n";
        let all = diff("Cargo.lock", 9) + binary + &diff("a.py", 1) + &diff("web/dist/a.js", 1);
        assert_eq!(answer(all.as_bytes(), &mut made), Ok(wanted));
        assert_eq!([made.notes["generated_file"], made.notes["file_without_text"]], [2, 1]);
    }

    #[test]
    fn a_diff_without_an_answer_is_dropped_by_name() {
        for (text, wanted) in [
            (diff("a.lock", 9), "generated"),
            ("diff --git a/a b/b\nsimilarity index 100%\n".to_owned(), "no_text"),
            (String::new(), "no_text"),
            (diff("a.py", 0), "small_change"),
            (diff("a.py", 200), LARGE),
        ] {
            assert_eq!(answer(text.as_bytes(), &mut Made::default()), Err(wanted), "{text}");
        }
        assert_eq!(answer(b"diff --git \xff", &mut Made::default()), Err("not_utf8"));
    }
}
