//! Patches of commits: added and removed lines by file, from the output of `git diff-tree -p`.

use std::collections::BTreeMap;

use twox_hash::XxHash3_64;

/// Change of one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch {
    /// Changed files, by the number of their new path, or of the old one if they are gone.
    pub(crate) files: BTreeMap<u32, FileChange>,
}

/// Change of one file, blank lines left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FileChange {
    /// New lines, in order.
    pub(crate) added: Vec<LineHash>,
    /// Numbers of the new lines in the new file.
    pub(crate) numbers: Vec<usize>,
    /// Old lines, in order.
    pub(crate) removed: Vec<LineHash>,
}

impl Patch {
    /// Return whether no line was added or removed.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.values().all(|file| file.added.is_empty() && file.removed.is_empty())
    }

    /// Return whether two patches add and remove the same lines of the same files, wherever they are.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let same = |(ours, theirs): (&FileChange, &FileChange)| {
            ours.added == theirs.added && ours.removed == theirs.removed
        };
        self.files.keys().eq(other.files.keys()) && self.files.values().zip(other.files.values()).all(same)
    }

    /// Return whether this patch takes back exactly what the other one does.
    pub(crate) fn is_inverse_of(&self, other: &Self) -> bool {
        let inverse = |(ours, theirs): (&FileChange, &FileChange)| {
            ours.added == theirs.removed && ours.removed == theirs.added
        };
        !self.is_empty()
            && self.files.keys().eq(other.files.keys())
            && self.files.values().zip(other.files.values()).all(inverse)
    }
}

/// Parse the output of `git diff-tree --stdin -p -U0`; return the hash and the patch of each commit. `number`
/// gives the number of a path.
pub(crate) fn parse(output: &[u8], number: impl Fn(&[u8]) -> Option<u32>) -> Vec<(String, Patch)> {
    let mut patches: Vec<(String, Patch)> = Vec::new();
    let mut lines = output.split_inclusive(|&byte| byte == b'\n').map(without_break);
    let mut paths = Paths::default();
    while let Some(line) = lines.next() {
        if let Some(hash) = hash(line) {
            patches.push((hash.to_owned(), Patch::default()));
        } else if let Some(hunk) = Hunk::parse(line) {
            // The counts of a hunk say how many lines it has, so that no line of a file passes for a header.
            let mut read = |count: usize| {
                let text = lines.by_ref().filter(|line| line.first() != Some(&b'\\')).take(count);
                text.map(|line| LineHash::new(line.get(1..)?)).collect::<Vec<Option<LineHash>>>()
            };
            let (removed, added) = (read(hunk.old), read(hunk.new));
            if let (Some((_, patch)), Some(path)) = (patches.last_mut(), number(&paths.name())) {
                let file = patch.files.entry(path).or_default();
                file.removed.extend(removed.into_iter().flatten());
                let numbered = (hunk.start..).zip(added).filter_map(|(number, line)| Some((number, line?)));
                let (numbers, added): (Vec<usize>, Vec<LineHash>) = numbered.unzip();
                file.numbers.extend(numbers);
                file.added.extend(added);
            }
        } else {
            paths.read(line);
        }
    }
    patches
}

fn without_break(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Return the hash if a line is nothing else.
fn hash(line: &[u8]) -> Option<&str> {
    let is_hash = matches!(line.len(), 40 | 64) && line.iter().all(u8::is_ascii_hexdigit);
    is_hash.then(|| std::str::from_utf8(line).ok())?
}

/// Header of a hunk: `@@ -1,2 +3 @@`.
struct Hunk {
    /// Number of old lines.
    old: usize,
    /// Number of new lines.
    new: usize,
    /// Number of the first new line.
    start: usize,
}

impl Hunk {
    fn parse(line: &[u8]) -> Option<Self> {
        let ranges = line.strip_prefix(b"@@ -")?.split(|&byte| byte == b'@').next()?;
        let (old, new) = std::str::from_utf8(ranges).ok()?.trim_end().split_once(" +")?;
        let range = |text: &str| {
            let (start, count) = text.split_once(',').unwrap_or((text, "1"));
            Some((start.parse().ok()?, count.parse().ok()?))
        };
        let ((_, old), (start, new)): ((usize, usize), (usize, usize)) = (range(old)?, range(new)?);
        Some(Self { old, new, start })
    }
}

/// Paths of the file whose hunks follow.
#[derive(Debug, Default)]
struct Paths {
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

impl Paths {
    /// Read a header: `--- a/path`, `+++ b/path`, `+++ /dev/null`.
    fn read(&mut self, line: &[u8]) {
        let path = |rest: &[u8], side: &[u8]| unquote(rest).strip_prefix(side).map(<[u8]>::to_vec);
        if let Some(rest) = line.strip_prefix(b"--- ") {
            self.old = path(rest, b"a/");
        } else if let Some(rest) = line.strip_prefix(b"+++ ") {
            self.new = path(rest, b"b/");
        }
    }

    fn name(&self) -> Vec<u8> {
        self.new.clone().or_else(|| self.old.clone()).unwrap_or_default()
    }
}

/// Return a path as it is: git puts one with odd characters in quotes, with the escapes of C; behind one
/// with spaces it puts a tab.
pub(crate) fn unquote(text: &[u8]) -> Vec<u8> {
    let text = text.strip_suffix(b"\t").unwrap_or(text);
    let Some(inner) = text.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return text.to_vec();
    };
    let mut bytes = inner.iter().copied();
    let mut path = Vec::with_capacity(inner.len());
    while let Some(byte) = bytes.next() {
        path.push(if byte == b'\\' { unescape(&mut bytes) } else { byte });
    }
    path
}

fn unescape(bytes: &mut impl Iterator<Item = u8>) -> u8 {
    let digit = |byte: u8| byte.wrapping_sub(b'0') & 7;
    match bytes.next().unwrap_or(b'\\') {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'a' => 7,
        b'b' => 8,
        b'v' => 11,
        b'f' => 12,
        first @ b'0'..=b'7' => {
            let mut next = || digit(bytes.next().unwrap_or(b'0'));
            (digit(first) << 6) | (next() << 3) | next()
        }
        other => other,
    }
}

/// Hash of a line without its white space. The lowest bit is set if the line is distinctive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LineHash(u64);

/// Fewest bytes of a distinctive line: `}`, `end` and `else:` are in every file.
const DISTINCTIVE: usize = 8;

impl LineHash {
    /// Return a line; `None` if it is blank. Formatters and `git blame -w` change white space only.
    pub(crate) fn new(text: &[u8]) -> Option<Self> {
        let dense: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let is_distinctive = dense.len() >= DISTINCTIVE && dense.iter().any(u8::is_ascii_alphanumeric);
        let hash = XxHash3_64::oneshot(&dense) & !1;
        (!dense.is_empty()).then_some(Self(hash | u64::from(is_distinctive)))
    }

    /// Return whether the line is long enough to say where it is from.
    pub(crate) fn is_distinctive(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Return whether a program wrote a file: lock files and generated code. Nobody's work is judged by them.
pub(crate) fn is_generated(path: &[u8]) -> bool {
    const NAMES: [&[u8]; 9] = [
        b"package-lock.json",
        b"npm-shrinkwrap.json",
        b"pnpm-lock.yaml",
        b"go.sum",
        b"packages.lock.json",
        b"Package.resolved",
        b"bun.lockb",
        b"gradle.lockfile",
        b"flake.lock",
    ];
    const ENDS: [&[u8]; 10] = [
        b".lock",
        b".min.js",
        b".min.css",
        b".map",
        b".pb.go",
        b"_pb2.py",
        b"_pb2.pyi",
        b".pb.cc",
        b".pb.h",
        b".snap",
    ];
    const FOLDERS: [&[u8]; 3] = [b"node_modules", b"vendor", b"dist"];
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let mut folders = path.split(|&byte| byte == b'/').rev().skip(1);
    NAMES.contains(&name)
        || ENDS.iter().any(|end| name.ends_with(end))
        || folders.any(|folder| FOLDERS.contains(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patches(output: &str) -> Vec<(String, Patch)> {
        parse(output.as_bytes(), |path| {
            [&b"x"[..], b"x\ny"].iter().position(|name| *name == path)?.try_into().ok()
        })
    }

    fn change(removed: &[&str], added: &[&str]) -> FileChange {
        let lines = |texts: &[&str]| texts.iter().filter_map(|text| LineHash::new(text.as_bytes())).collect();
        FileChange { added: lines(added), removed: lines(removed), numbers: (1..=added.len()).collect() }
    }

    const HASH: &str = "1111111111111111111111111111111111111111";

    #[test]
    fn lines_that_look_like_headers_are_lines() {
        let output = format!(
            "{HASH}\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@ fn\n--- a/y\n-@@ -1 +1 @@\n+++ b/z\n+{HASH}\n\
             +last\n\\ No newline at end of file\n{HASH}\n"
        );
        let all = patches(&output);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].1.files[&0], change(&["-- a/y", "@@ -1 +1 @@"], &["++ b/z", HASH, "last"]));
        assert!(all[1].1.is_empty());
    }

    #[test]
    fn paths_with_line_breaks_escapes_and_spaces() {
        assert_eq!(unquote(br#""a/x\ny\t\"\\\303\251\033[31m""#), "a/x\ny\t\"\\é\u{1b}[31m".as_bytes());
        assert_eq!(unquote(b"a/two words\t"), b"a/two words");
        let output = format!("{HASH}\n--- /dev/null\n+++ \"b/x\\ny\"\n@@ -0,0 +1 @@\n+one\n");
        assert_eq!(patches(&output)[0].1.files[&1], change(&[], &["one"]));
    }

    #[test]
    fn an_inverse_swaps_both_sides_of_every_file() {
        let patch = |removed: &[&str], added: &[&str]| Patch { files: [(0, change(removed, added))].into() };
        assert!(patch(&["a"], &["b"]).is_inverse_of(&patch(&["b"], &["a"])));
        assert!(!patch(&["a"], &["b"]).is_inverse_of(&patch(&["b"], &["c"])));
        assert!(!Patch::default().is_inverse_of(&Patch::default()));
    }

    #[test]
    fn white_space_is_no_part_of_a_line() {
        assert_eq!(LineHash::new(b"\treturn  x + 1 \r"), LineHash::new(b"return x+1"));
        assert_ne!(LineHash::new(b"return x+2"), LineHash::new(b"return x+1"));
        assert_eq!(LineHash::new(b" \t\r"), None);
    }

    #[test]
    fn short_lines_and_punctuation_are_not_distinctive() {
        let is_distinctive = |text: &[u8]| LineHash::new(text).is_some_and(LineHash::is_distinctive);
        assert!(
            is_distinctive(b"return x+1") && !is_distinctive(b"  else:") && !is_distinctive(b"// ---------")
        );
    }

    #[test]
    fn files_that_a_program_wrote() {
        for path in ["Cargo.lock", "web/package-lock.json", "a/vendor/b.go", "api/x.pb.go"] {
            assert!(is_generated(path.as_bytes()), "{path}");
        }
        for path in ["src/lock.rs", "vendored.py", "dist.py"] {
            assert!(!is_generated(path.as_bytes()), "{path}");
        }
    }
}
