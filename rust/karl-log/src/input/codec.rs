//! Compression of files, and unsupported formats, detected by their first bytes.

use crate::error::Unread;

/// Compression of a file; detected by its first bytes, never by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Uncompressed.
    Plain,
    /// One or more gzip members.
    Gzip,
    /// One or more zstd frames.
    Zstd,
}

impl Codec {
    /// Return the codec that the first bytes of a file announce.
    #[must_use]
    pub fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a skippable frame, which some parallel writers put first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// Return the name used in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Number of bytes that identify the codec.
pub const MAGIC: usize = 4;

/// Number of unpacked bytes that identify an unsupported format: the mark of a tar archive is the last of
/// them.
pub(crate) const HEAD: usize = TAR + 8;

/// Offset of the mark of a tar archive.
const TAR: usize = 257;

/// Return why the first bytes of a file, unpacked, cannot be read; `None` for UTF-8 text.
pub(crate) fn unread(head: &[u8]) -> Option<Unread> {
    packer(head).map(Unread::Packed).or_else(|| encoding(head).map(Unread::Encoded))
}

/// Return the name of an archive or binary format. The few letters that bzip2 and zlib begin with, and the
/// mark inside the first header of tar, may occur in a text too.
fn packer(head: &[u8]) -> Option<&'static str> {
    match head {
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', b'&', b'S', b'Y', ..] => Some("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        [0x04, 0x22, 0x4d, 0x18, ..] => Some("lz4"),
        [b'P', b'K', 3, 4, ..] => Some("zip"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Some("7-Zip"),
        // The header of a first page, or a footer, begins with this control character.
        [b'P', b'A', b'R', b'1', 0x15, ..] => Some("Parquet"),
        [b'x', 0x01 | b'^' | 0x9c | 0xda, ..] if is_binary(head) => Some("zlib"),
        // Text has no zero bytes.
        _ if head.get(TAR..).is_some_and(|mark| mark.starts_with(b"ustar") && mark.contains(&0)) => {
            Some("tar")
        }
        _ => None,
    }
}

/// Return an encoding other than UTF-8, detected by the byte order mark or by the first two characters of
/// JSON.
fn encoding(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [b'{' | b'[', 0, 1..=255, 0, ..] => Some("UTF-16LE"),
        [0, b'{' | b'[', 0, 1..=255, ..] => Some("UTF-16BE"),
        _ => None,
    }
}

/// Return whether the beginning of a file is neither UTF-8 nor a text of one byte per character.
fn is_binary(head: &[u8]) -> bool {
    let control = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    let broken = std::str::from_utf8(head).is_err_and(|error| error.error_len().is_some());
    broken && head.iter().any(control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_never_refused() {
        let texts =
            ["x^2 + y^2", "x^\u{e9}", "xz", "{", "\u{feff}{}", "", "PK", "BZh9 began", "PAR1 is a word"];
        assert!(texts.iter().all(|text| unread(text.as_bytes()).is_none()));
        assert!(unread(b"x^2 caf\xe9 is Latin-1").is_none());
        // A character cut at the end is not damage.
        assert!(!is_binary(&"x^\0\u{e9}".as_bytes()[..4]));
    }
}
