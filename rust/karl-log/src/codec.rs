//! How files are packed, by their first bytes.

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

/// How many of the first bytes, unpacked, tell what has packed them: the mark of a tar archive is the last of them.
pub(crate) const HEAD: usize = TAR + 8;

/// Where an archive of tar says that it is one.
const TAR: usize = 257;

/// What has packed a file that is not unpacked here. The few letters that bzip2 begins with, and those in the midst of tar's
/// first header, may stand in a text too.
pub(crate) fn packer(head: &[u8]) -> Option<&'static str> {
    match head {
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', b'&', b'S', b'Y', ..] => Some("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        [0x04, 0x22, 0x4d, 0x18, ..] => Some("lz4"),
        [b'P', b'K', 3, 4, ..] => Some("zip"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Some("7-Zip"),
        // No text holds a zero byte.
        _ if head.get(TAR..).is_some_and(|mark| mark.starts_with(b"ustar") && mark.contains(&0)) => {
            Some("tar")
        }
        _ => None,
    }
}
