//! Lines of code as hashes, so that histories of any size are compared in memory.

use twox_hash::XxHash3_64;

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
