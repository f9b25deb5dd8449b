//! Logs that can be read once: standard input, or a pipe.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use twox_hash::XxHash3_128;

use super::codec::{Codec, MAGIC, is_damage, unpacked};

/// Bytes unpacked at a time. A decoder that meets damage returns an error in place of the bytes it unpacked
/// in the same call, and a pipe cannot be read again: at most this much is lost.
const PACKED_STEP: usize = 1 << 12;

/// Source of the bytes.
#[derive(Clone, Debug)]
pub enum Pipe {
    /// Standard input.
    StandardInput,
    /// Path of a named pipe.
    At(PathBuf),
}

impl Pipe {
    /// Return the pipe of a name.
    #[must_use]
    pub fn named(name: &str, path: &Path) -> Self {
        if name == "-" { Self::StandardInput } else { Self::At(path.to_path_buf()) }
    }

    fn open(&self) -> io::Result<File> {
        match self {
            // A descriptor of its own at the current position: another program may have read the first lines.
            Self::StandardInput => Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
            Self::At(path) => File::open(path),
        }
    }
}

/// Facts about the bytes of a pipe, known once it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeFacts {
    /// Compression.
    pub codec: Codec,
    /// Number of packed bytes.
    pub size: u64,
    /// XXH3-128 of the packed bytes, as 32 hexadecimal digits.
    pub hash: String,
}

/// Bytes of a pipe as they arrive, counted and hashed.
struct PipeBytes {
    file: Option<File>,
    codec: Codec,
    size: u64,
    hasher: XxHash3_128,
}

/// Shared handle on those bytes: one for the decoder, one for the caller.
#[derive(Clone)]
pub(crate) struct Tap(Arc<Mutex<PipeBytes>>);

impl Tap {
    fn lock(&self) -> MutexGuard<'_, PipeBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return the facts so far; wait for a read in progress.
    pub(crate) fn origin(&self) -> PipeFacts {
        let raw = self.lock();
        PipeFacts { codec: raw.codec, size: raw.size, hash: format!("{:032x}", raw.hasher.finish_128()) }
    }
}

impl Read for Tap {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut raw = self.lock();
        let count = raw.file.as_mut().map_or(Ok(0), |file| file.read(out))?;
        raw.size += count as u64;
        raw.hasher.write(&out[..count]);
        Ok(count)
    }
}

/// Unpacked bytes of a pipe. It is opened at the first read, which may have to wait for a writer.
pub(crate) struct Unpacking {
    pipe: Pipe,
    tap: Tap,
    decoder: Option<Box<dyn Read + Send>>,
    step: usize,
}

impl Unpacking {
    pub(crate) fn new(pipe: Pipe) -> (Self, Tap) {
        let raw = PipeBytes { file: None, codec: Codec::Plain, size: 0, hasher: XxHash3_128::new() };
        let tap = Tap(Arc::new(Mutex::new(raw)));
        (Self { pipe, tap: tap.clone(), decoder: None, step: usize::MAX }, tap)
    }

    fn open(&mut self) -> io::Result<Box<dyn Read + Send>> {
        let file = self.pipe.open()?;
        self.tap.lock().file = Some(file);
        let mut magic = Vec::with_capacity(MAGIC);
        (&mut self.tap).take(MAGIC as u64).read_to_end(&mut magic)?;
        let codec = Codec::of(&magic);
        self.tap.lock().codec = codec;
        self.step = if codec == Codec::Plain { usize::MAX } else { PACKED_STEP };
        unpacked(Cursor::new(magic).chain(self.tap.clone()), codec)
    }
}

impl Read for Unpacking {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => self.open()?,
        };
        let most = out.len().min(self.step);
        let read = decoder.read(&mut out[..most]);
        if self.step < usize::MAX && read.as_ref().is_err_and(is_damage) {
            // Bytes after damage count as read, and the writer is not cut off.
            io::copy(&mut self.tap, &mut io::sink())?;
        }
        self.decoder = Some(decoder);
        read
    }
}
