//! One input file, opened as often as needed: plain, gzip (all members) or zstd (all frames).

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};

use twox_hash::XxHash3_128;

use super::codec::{Checksums, Codec, HEAD, MAGIC, Unpacked, UpToDamage, is_damage, unread};
use super::read_ahead::ReadAhead;
use crate::cancel::Watch;
use crate::error::{Error, Result};

/// One input file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Absolute path of the bytes, independent of the working directory.
    pub path: PathBuf,
    /// Name in messages: the path, or `-` for standard input spooled to a file.
    pub name: String,
    /// Compression.
    pub codec: Codec,
    /// Packed bytes when it was opened.
    pub size: u64,
    /// Last change, in seconds since 1970.
    pub modified_seconds: f64,
    /// Device, inode and last change when it was opened.
    pub stamp: Stamp,
    /// True if packed bytes are unpacked in a thread of their own.
    pub ahead: bool,
    /// True if the file may be skipped when it holds no records, as a file found in a folder may.
    pub optional: bool,
}

impl Source {
    /// Open a file and read only its first bytes.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened and read, [`Error::Layout`] if it is not a regular file: a pipe
    /// can be read once only.
    pub fn open(path: &Path, name: &str) -> Result<Self> {
        let io = |doing| move |error| Error::io(doing, Path::new(name), error);
        let facts = fs::metadata(path).map_err(io("open"))?;
        if !facts.is_file() {
            let problem = "it is not a regular file".to_owned();
            return Err(Error::Layout { path: PathBuf::from(name), problem });
        }
        let mut file = File::open(path).map_err(io("open"))?;
        let mut magic = Vec::with_capacity(MAGIC);
        (&mut file).take(MAGIC as u64).read_to_end(&mut magic).map_err(io("read"))?;
        Ok(Self {
            path: absolute(path).map_err(io("look at"))?,
            name: name.to_owned(),
            codec: Codec::of(&magic),
            size: facts.len(),
            modified_seconds: modified(&facts),
            stamp: stamp(&facts),
            ahead: false,
            optional: false,
        })
    }

    /// Return a reader of the unpacked bytes from the start; it ends on cancellation.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened; later damage comes from the reader.
    pub fn reader<'w>(&self, watch: &'w Watch) -> Result<Stream<'w>> {
        self.stream(watch).map_err(|error| self.failed("open", error))
    }

    /// Do as [`Source::reader`], with the system's own error.
    ///
    /// # Errors
    /// Error of the system; later damage comes from the reader.
    pub fn stream<'w>(&self, watch: &'w Watch) -> io::Result<Stream<'w>> {
        if self.codec == Codec::Plain {
            return Ok(Box::new(Watched::new(File::open(&self.path)?, watch)));
        }
        let unpacked = Unpacked::open(&self.path, self.codec, Checksums::Compared)?;
        Ok(if self.ahead {
            Box::new(Watched::new(ReadAhead::new(unpacked, watch), watch))
        } else {
            Box::new(Watched::new(unpacked, watch))
        })
    }

    /// Return a reader for a second pass over the same bytes: it unpacks in the consuming thread, so that
    /// they stay in that core's cache, and does not verify checksums that the first pass has verified.
    pub(crate) fn again<'w>(&self, watch: &'w Watch) -> io::Result<Stream<'w>> {
        Ok(Box::new(Watched::new(Unpacked::open(&self.path, self.codec, Checksums::Known)?, watch)))
    }

    /// Do as [`Source::stream`], ending at the first damage.
    ///
    /// # Errors
    /// As [`Source::stream`].
    pub fn undamaged<'w>(&self, watch: &'w Watch) -> io::Result<Stream<'w>> {
        Ok(Box::new(UpToDamage(self.stream(watch)?)))
    }

    /// Return the error for a failed system call on the file; names the log, not its temporary copy.
    #[must_use]
    pub fn failed(&self, doing: &'static str, error: io::Error) -> Error {
        Error::io(doing, Path::new(&self.name), error)
    }

    /// Return the error for a failed second read: a file that is gone or ends early has changed.
    pub(crate) fn lost(&self, doing: &'static str, offset: u64, error: io::Error) -> Error {
        if is_damage(&error) || error.kind() == io::ErrorKind::NotFound {
            return self.changed(offset);
        }
        self.failed(doing, error)
    }

    /// Reject unsupported archives and encodings.
    ///
    /// # Errors
    /// [`Error::Unread`] for those, [`Error::Io`] if it cannot be read.
    pub fn readable(&self, watch: &Watch) -> Result<()> {
        let mut head = Vec::with_capacity(HEAD);
        let read = self.undamaged(watch).and_then(|stream| stream.take(HEAD as u64).read_to_end(&mut head));
        read.map_err(|error| self.failed("read", error))?;
        let refused = |why| Error::Unread { path: PathBuf::from(&self.name), why };
        unread(&head).map(refused).map_or(Ok(()), Err)
    }

    /// Return the error for a record that has changed.
    #[must_use]
    pub fn changed(&self, offset: u64) -> Error {
        Error::Changed { path: PathBuf::from(&self.name), offset }
    }

    /// Return the error for a record that is not a valid row.
    pub(crate) fn unwritable(&self, offset: u64) -> Error {
        Error::Unwritable { path: PathBuf::from(&self.name), offset }
    }

    /// Return hashes of the first and the last packed bytes, up to the size at opening.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn ends(&self) -> Result<Ends> {
        let io = |error| self.failed("read", error);
        let mut file = File::open(&self.path).map_err(io)?;
        let mut ends = [Vec::new(), Vec::new()];
        for (end, from) in ends.iter_mut().zip([0, self.size.saturating_sub(END)]) {
            file.seek(SeekFrom::Start(from)).map_err(io)?;
            (&mut file).take(END.min(self.size - from)).read_to_end(end).map_err(io)?;
        }
        Ok(ends.map(|end| XxHash3_128::oneshot(&end)))
    }

    /// Reject a file that was rewritten since it was opened; it may have grown at its end.
    ///
    /// # Errors
    /// [`Error::Rewritten`].
    pub fn unchanged(&self, ends: &Ends) -> Result<()> {
        let grown = |facts: &Metadata| {
            let [now, before] = [stamp(facts), self.stamp].map(|(device, inode, _)| (device, inode));
            facts.len() > self.size && now == before && self.ends().is_ok_and(|now| now == *ends)
        };
        let same = |facts: &Metadata| facts.len() == self.size && stamp(facts) == self.stamp;
        match fs::metadata(&self.path) {
            Ok(facts) if same(&facts) || grown(&facts) => Ok(()),
            _ => Err(Error::Rewritten { path: PathBuf::from(&self.name) }),
        }
    }

    /// Open a plain file at `offset`.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened.
    pub fn reader_at(&self, offset: u64) -> Result<File> {
        let io = |error| self.failed("open", error);
        let mut file = File::open(&self.path).map_err(io)?;
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        Ok(file)
    }
}

/// Bytes compared at either end of a file that has grown.
const END: u64 = 1 << 16;

/// Hashes of both ends of a file.
pub type Ends = [u128; 2];

/// Device, inode and last change in seconds and nanoseconds.
pub type Stamp = (u64, u64, (i64, i64));

fn stamp(facts: &Metadata) -> Stamp {
    (facts.dev(), facts.ino(), (facts.mtime(), facts.mtime_nsec()))
}

/// Unpacked bytes of a file.
pub type Stream<'w> = Box<dyn Read + Send + 'w>;

/// Stream that ends on cancellation: a single record may fill a file, so a check between two records may come
/// too late. The consumer checks for cancellation before it trusts the end.
pub(crate) struct Watched<'w, R> {
    stream: R,
    watch: &'w Watch,
}

impl<'w, R> Watched<'w, R> {
    pub(crate) fn new(stream: R, watch: &'w Watch) -> Self {
        Self { stream, watch }
    }
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.watch.is_stopped() { Ok(0) } else { self.stream.read(out) }
    }
}

fn modified(facts: &Metadata) -> f64 {
    let age = facts.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    age.map_or(0.0, |age| age.as_secs_f64())
}

/// Bytes hashed at either end of a file.
pub const CHECKSUM_END: u64 = 1 << 20;

/// Return the XXH3-128 of a file's packed bytes as 32 hexadecimal digits: of the first and the last MiB (the
/// whole file if it is no longer than both), or of all of it.
///
/// # Errors
/// [`Error::Io`] if it cannot be read, [`Error::Changed`] if it is
/// gone, [`Error::Interrupted`].
pub fn hash(source: &Source, whole: bool, watch: &Watch) -> Result<String> {
    let io = |error| source.failed("read", error);
    let mut file = File::open(&source.path).map_err(|error| source.lost("open", 0, error))?;
    let mut hasher = XxHash3_128::new();
    if whole || source.size <= 2 * CHECKSUM_END {
        // Bytes that a growing file gained since it was opened were not read.
        feed(&mut hasher, &mut file.take(source.size), source, watch)?;
    } else {
        feed(&mut hasher, &mut (&mut file).take(CHECKSUM_END), source, watch)?;
        file.seek(SeekFrom::Start(source.size - CHECKSUM_END)).map_err(io)?;
        feed(&mut hasher, &mut file.take(CHECKSUM_END), source, watch)?;
    }
    Ok(format!("{:032x}", hasher.finish_128()))
}

fn feed(hasher: &mut XxHash3_128, reader: &mut dyn Read, source: &Source, watch: &Watch) -> Result<()> {
    let mut block = vec![0; 1 << 18];
    loop {
        match reader.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) => hasher.write(&block[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(source.failed("read", error)),
        }
        watch.advance(0)?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_second_reading_makes_no_check_sums_anew() {
        let text: Vec<u8> = (0..1_000_000_u32).map(|at| b'a' + u8::try_from(at % 23).unwrap()).collect();
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(&text).unwrap();
        let mut packed = encoder.finish().unwrap();
        *packed.last_mut().unwrap() ^= 1;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&packed).unwrap();
        let (source, watch) = (Source::open(file.path(), "log").unwrap(), Watch::new());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let damage = source.stream(&watch).unwrap().read_to_end(&mut first).unwrap_err();
        assert!(is_damage(&damage) && source.again(&watch).unwrap().read_to_end(&mut second).is_ok());
        assert!(second == text && text.starts_with(&first));
    }
}
