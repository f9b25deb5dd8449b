//! Compression of files and unsupported formats, detected by their first bytes, and the decoders of gzip and zstd.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use zstd::zstd_safe::DParameter;

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

/// Largest accepted zstd window: 2^27 bytes, the limit that the format asks every decoder to support.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Stream that ends at the first damage.
pub(super) struct UpToDamage<R>(pub(super) R);

impl<R: Read> Read for UpToDamage<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.0.read(out) {
            Err(error) if is_damage(&error) => Ok(0),
            read => read,
        }
    }
}

/// Unpacked bytes up to the damage. A decoder that meets damage returns an error in place of all bytes
/// unpacked in the same call, so the remaining ones are unpacked again, one byte per call.
pub(super) struct Unpacked {
    path: PathBuf,
    codec: Codec,
    sums: Checksums,
    decoder: Box<dyn Read + Send>,
    given: u64,
    careful: bool,
}

impl Unpacked {
    pub(super) fn open(path: &Path, codec: Codec, sums: Checksums) -> io::Result<Self> {
        let decoder = decoder(path, codec, sums)?;
        Ok(Self { path: path.to_path_buf(), codec, sums, decoder, given: 0, careful: false })
    }

    fn again(&mut self) -> io::Result<()> {
        self.careful = true;
        self.decoder = decoder(&self.path, self.codec, self.sums)?;
        io::copy(&mut (&mut self.decoder).take(self.given), &mut io::sink()).map(drop)
    }
}

impl Read for Unpacked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = if self.careful { out.len().min(1) } else { out.len() };
        match self.decoder.read(&mut out[..most]) {
            Err(error) if is_damage(&error) && !self.careful => self.again().and_then(|()| self.read(out)),
            Err(error) => Err(error),
            Ok(count) => {
                self.given += count as u64;
                Ok(count)
            }
        }
    }
}

/// Treatment of the checksums of a packed file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Checksums {
    /// Computed and compared.
    Compared,
    /// Verified before; skipped in a format where they are slow.
    Known,
}

fn decoder(path: &Path, codec: Codec, sums: Checksums) -> io::Result<Box<dyn Read + Send>> {
    let packed = File::open(path)?;
    match (codec, sums) {
        (Codec::Zstd, Checksums::Known) => {
            let mut decoder = zstd(packed)?;
            decoder.set_parameter(DParameter::ForceIgnoreChecksum(true))?;
            Ok(Box::new(decoder))
        }
        (codec, _) => unpacked(packed, codec),
    }
}

/// Return the unpacked bytes of a file up to the first damage.
///
/// # Errors
/// Error of the system.
pub fn undamaged(path: &Path, codec: Codec) -> io::Result<impl Read> {
    Ok(UpToDamage(Unpacked::open(path, codec, Checksums::Compared)?))
}

/// Return the decoder of a packed stream.
///
/// # Errors
/// Error of the decoder.
pub fn unpacked(packed: impl Read + Send + 'static, codec: Codec) -> io::Result<Box<dyn Read + Send>> {
    Ok(match codec {
        Codec::Plain => Box::new(packed),
        Codec::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 18, packed))),
        Codec::Zstd => Box::new(zstd(packed)?),
    })
}

fn zstd<R: Read>(packed: R) -> io::Result<zstd::Decoder<'static, BufReader<R>>> {
    let mut decoder = zstd::Decoder::new(packed)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// Return whether an error means that packed bytes are damaged or truncated, rather than that the disk
/// failed.
#[must_use]
pub fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    error.raw_os_error().is_none()
        && matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof | Other)
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
