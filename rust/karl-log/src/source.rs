//! One input file, opened as often as it is needed: plain, gzip (all members) or zstd (all frames).

use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::ahead::Ahead;
use crate::error::{Error, Result};

/// The largest zstd window that is allowed: 2^27 bytes, what the format asks every decoder to support at most.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

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
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or one to be skipped, with which some parallel writers begin.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Self::Zstd,
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

/// One input file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where its bytes are.
    pub path: PathBuf,
    /// What to call it: its path, or `-` for standard input spooled to a file.
    pub name: String,
    /// How they are packed.
    pub codec: Codec,
    /// Packed bytes when it was opened.
    pub size: u64,
    /// Last change, in seconds since 1970.
    pub modified_seconds: f64,
    /// Whether packed bytes are unpacked in a thread of their own.
    pub ahead: bool,
    /// Whether it may be passed over if it holds no records, as a file that was found in a folder may.
    pub optional: bool,
}

impl Source {
    /// Looks at a file without reading more than its first bytes.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened and read, [`Error::Layout`] if it is no regular file: a pipe can be read
    /// once only.
    pub fn open(path: &Path, name: &str) -> Result<Self> {
        let io = |doing| move |error| Error::io(doing, path, error);
        let facts = fs::metadata(path).map_err(io("open"))?;
        if !facts.is_file() {
            let problem = "it is no regular file".to_owned();
            return Err(Error::Layout { path: path.to_path_buf(), problem });
        }
        let mut file = File::open(path).map_err(io("open"))?;
        let mut magic = Vec::with_capacity(4);
        (&mut file).take(4).read_to_end(&mut magic).map_err(io("read"))?;
        Ok(Self {
            path: path.to_path_buf(),
            name: name.to_owned(),
            codec: Codec::of(&magic),
            size: facts.len(),
            modified_seconds: modified(&facts),
            ahead: false,
            optional: false,
        })
    }

    /// Its unpacked bytes from the start.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened; later damage comes from the reader.
    pub fn reader(&self) -> Result<Box<dyn Read + Send>> {
        self.stream().map_err(|error| Error::io("open", &self.path, error))
    }

    /// As [`Source::reader`], with the system's own error.
    pub(crate) fn stream(&self) -> io::Result<Box<dyn Read + Send>> {
        let file = File::open(&self.path)?;
        let unpacked: Box<dyn Read + Send> = match self.codec {
            Codec::Plain => return Ok(Box::new(file)),
            Codec::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 18, file))),
            Codec::Zstd => Box::new(zstd(file)?),
        };
        Ok(if self.ahead { Box::new(Ahead::new(unpacked)) } else { unpacked })
    }

    /// A plain file's bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened.
    pub fn reader_at(&self, offset: u64) -> Result<File> {
        let io = |error| Error::io("open", &self.path, error);
        let mut file = File::open(&self.path).map_err(io)?;
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        Ok(file)
    }
}

fn zstd(file: File) -> io::Result<impl Read + Send> {
    let mut decoder = zstd::Decoder::new(file)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn modified(facts: &Metadata) -> f64 {
    let age = facts.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    age.map_or(0.0, |age| age.as_secs_f64())
}

/// Whether an error means that packed bytes are damaged or cut short, rather than that the disk failed.
#[must_use]
pub fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    error.raw_os_error().is_none()
        && matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof | Other)
}
