//! Decoders of gzip and zstd.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use zstd::zstd_safe::DParameter;

use super::codec::Codec;

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
