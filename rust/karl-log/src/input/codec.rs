//! How files are packed, and which are not read, by their first bytes.

use crate::error::Unread;

/// How a file's bytes are packed; told by its first bytes, never by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// As they are.
    Plain,
    /// One or more gzip members.
    Gzip,
    /// One or more zstd frames.
    Zstd,
}

impl Codec {
    pub(crate) fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or one to be skipped, with which some parallel writers begin.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// The name that manifests use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// How many of a file's first bytes tell its codec.
pub(crate) const MAGIC: usize = 4;

/// How many of the first bytes, unpacked, tell what nothing here reads: the mark of a tar archive is the last of them.
pub(crate) const HEAD: usize = TAR + 8;

/// Where an archive of tar says that it is one.
const TAR: usize = 257;

/// Return why the first bytes of a file, unpacked, cannot be read; none for a text in UTF-8.
pub(crate) fn unread(head: &[u8]) -> Option<Unread> {
    packer(head).map(Unread::Packed).or_else(|| encoding(head).map(Unread::Encoded))
}

/// The few letters that bzip2 and zlib begin with, and those in the midst of tar's first header, may stand in a text too.
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
        // No text holds a zero byte.
        _ if head.get(TAR..).is_some_and(|mark| mark.starts_with(b"ustar") && mark.contains(&0)) => {
            Some("tar")
        }
        _ => None,
    }
}

/// An encoding other than UTF-8, by the mark of its byte order or by the first two characters of JSON.
fn encoding(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [b'{' | b'[', 0, 1..=255, 0, ..] => Some("UTF-16LE"),
        [0, b'{' | b'[', 0, 1..=255, ..] => Some("UTF-16BE"),
        _ => None,
    }
}

/// Whether the beginning of a file is neither UTF-8, as far as it goes, nor any text of one byte a character.
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
        // A character that the end cuts through is no damage.
        assert!(!is_binary(&"x^\0\u{e9}".as_bytes()[..4]));
    }
}
