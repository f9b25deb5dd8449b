//! Second pass: the bytes of the chosen records only.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use karl_core::rng::id128;

use crate::cancel::Watch;
use crate::columns::Place;
use crate::conversation::reward_input;
use crate::detect::Input;
use crate::error::Result;
use crate::extract::upper;
use crate::input::codec::{Codec, unpacked};
use crate::input::source::{Source, Stream, Watched};
use crate::json::reference_parser::is_row;
use crate::log::Log;
use crate::parallel::map;
use crate::unfold::Unfolder;

/// Rows of a plain file that one thread reads at a time.
const SHARE: usize = 32;

/// Rows that one thread looks up at a time.
pub(crate) const LOOKED_UP: usize = 4096;

/// Read records again, unchanged; the result is in the order of `rows`.
///
/// # Errors
/// As [`fetch_each`].
pub fn fetch(log: &Log, rows: &[u32], threads: usize, watch: &Watch) -> Result<Vec<Vec<u8>>> {
    fetch_each(log, rows, threads, watch, |_, record| record)
}

/// Read records again and convert each on the thread that read it, which then holds no other; the result is
/// in the order of `rows`.
///
/// Packed files are unpacked in parallel, one per thread; the rows of plain ones are shared among the
/// threads.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if a file cannot be read, [`Error::Changed`](crate::Error::Changed) if a
/// record no longer has the bytes that were scanned, [`Error::Draw`](crate::Error::Draw) for a row out of
/// range, [`Error::Interrupted`](crate::Error::Interrupted).
pub fn fetch_each<R: Send>(
    log: &Log,
    rows: &[u32],
    threads: usize,
    watch: &Watch,
    one: impl Fn(u32, Vec<u8>) -> R + Sync,
) -> Result<Vec<R>> {
    let mut wanted = look_up_all(log, rows, threads)?;
    wanted.sort_unstable_by_key(|wanted| (wanted.place.input, wanted.place.offset));
    if let Some(prefetch) = &log.prefetch {
        prefetch.bring(&wanted.iter().map(|wanted| wanted.place).collect::<Vec<_>>())?;
    }
    let mut made: Vec<Option<R>> = rows.iter().map(|_| None).collect();
    let input = |share: &[WantedRecord]| &log.inputs[share[0].place.input];
    for share in map(shares(log, &wanted), threads, |share| fetch_share(input(share), share, watch, &one)) {
        for (at, one) in share? {
            made[at] = Some(one);
        }
    }
    Ok(made.into_iter().flatten().collect())
}

/// Read rows again, each as the text `[prompt, completion, record]`; `None` for a record that the reference
/// parser rejects.
///
/// A conversation is split before its first assistant turn, and messages after its last one are left out.
/// Prompt and completion are lists of messages, or texts if the record has texts. If a record cannot be a
/// training example, prompt and completion are empty: an empty text, or one assistant message without
/// content. Secrets are not replaced, because nothing of this is written.
///
/// # Errors
/// As [`fetch`].
pub fn reward_inputs(log: &Log, rows: &[u32], threads: usize, watch: &Watch) -> Result<Vec<Option<String>>> {
    fetch_each(log, rows, threads, watch, |row, bytes| reward_input(&bytes, log.fields(row)))
}

/// Return the bytes at some places of one file, in ascending order of offsets: each an offset and a length. Of a packed
/// file that is read from a frame on, `start` has its first byte in the file, and its offset in the unpacked bytes.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if it cannot be read, [`Error::Changed`](crate::Error::Changed) if it ends before.
pub fn read_places(
    source: &Source,
    start: (u64, u64),
    places: &[(u64, u32)],
    watch: &Watch,
) -> Result<Vec<Vec<u8>>> {
    let reader = RecordReader::open_at(source, start, watch);
    let mut reader = reader.map_err(|error| source.lost("open", start.1, error))?;
    let one = |&(offset, length): &(u64, u32)| {
        watch.advance(u64::from(length))?;
        let record = reader.record(Place { input: 0, offset, length });
        record.map_err(|error| source.lost("read", offset, error))
    };
    places.iter().map(one).collect()
}

/// Record to read.
#[derive(Clone, Copy)]
struct WantedRecord {
    /// Index in the result.
    at: usize,
    row: u32,
    place: Place,
    digest: u64,
}

fn look_up(log: &Log, at: usize, row: u32) -> Result<WantedRecord> {
    let refused = || karl_core::Error::Row { index: at, row: i64::from(row), count: log.len() };
    let (place, digest) = log.record(row).ok_or_else(refused)?;
    Ok(WantedRecord { at, row, place, digest })
}

/// Look up every row, in parallel because the look-ups miss the cache.
fn look_up_all(log: &Log, rows: &[u32], threads: usize) -> Result<Vec<WantedRecord>> {
    let parts = rows.chunks(LOOKED_UP).enumerate().collect();
    let part = |(part, rows): (usize, &[u32])| {
        (part * LOOKED_UP..).zip(rows).map(|(at, &row)| look_up(log, at, row)).collect::<Result<Vec<_>>>()
    };
    let mut all = Vec::with_capacity(rows.len());
    for part in map(parts, threads, part) {
        all.extend(part?);
    }
    Ok(all)
}

/// Split into shares that one thread reads at a time: all of a packed file, or a part of a plain one.
fn shares<'a>(log: &Log, wanted: &'a [WantedRecord]) -> Vec<&'a [WantedRecord]> {
    let of_one_file = wanted.chunk_by(|a, b| a.place.input == b.place.input);
    let cut = |share: &'a [WantedRecord]| {
        let plain = log.inputs[share[0].place.input].source.codec == Codec::Plain;
        share.chunks(if plain { SHARE } else { share.len() })
    };
    of_one_file.flat_map(cut).collect()
}

/// Read and convert records of one file, in ascending order of place.
fn fetch_share<R>(
    Input { source, fields, .. }: &Input,
    share: &[WantedRecord],
    watch: &Watch,
    one: impl Fn(u32, Vec<u8>) -> R,
) -> Result<Vec<(usize, R)>> {
    let first = share[0].place;
    let unfolder = Unfolder::new(fields);
    let mut reader =
        RecordReader::open(source, watch).map_err(|error| source.lost("open", first.offset, error))?;
    let mut made = Vec::with_capacity(share.len());
    // A packed file is read forwards only: a record that is wanted again is copied.
    let mut again: Option<Vec<u8>> = None;
    for (index, &WantedRecord { at, row, place, digest }) in share.iter().enumerate() {
        let record = again.take().map_or_else(|| reader.record(place), Ok);
        watch.advance(0)?;
        let record = record.map_err(|error| source.lost("read", place.offset, error))?;
        again = share.get(index + 1).is_some_and(|next| next.place == place).then(|| record.clone());
        let record = match &unfolder {
            Some(unfolder) => unfolder.find(&record, |row| upper(id128(row)) == digest).unwrap_or_default(),
            None => record,
        };
        check_unchanged(source, place, digest, &record)?;
        watch.advance(u64::from(place.length))?;
        made.push((at, one(row, record)));
    }
    Ok(made)
}

/// Record of a plain file, not yet read.
#[derive(Clone, Copy, Debug)]
pub struct RecordAtRest<'a> {
    source: &'a Source,
    place: Place,
    digest: u64,
    /// True if the record has not been validated as a row.
    unread: bool,
}

impl<'a> RecordAtRest<'a> {
    /// Return the record of a row; `None` for a row out of range.
    pub(crate) fn new(log: &'a Log, row: u32, unread: bool) -> Option<Self> {
        let (place, digest) = log.record(row)?;
        Some(Self { source: &log.inputs[place.input].source, place, digest, unread })
    }

    /// Return the length in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.place.length as usize
    }

    /// Read the record from its file, which stays open for the next ones.
    fn read(&self, open: &mut Option<(usize, File)>, to: &mut [u8]) -> Result<()> {
        let Place { input, offset, .. } = self.place;
        let lost = |doing| move |error| self.source.lost(doing, offset, error);
        let file = match open.take().filter(|&(opened, _)| opened == input) {
            Some((_, file)) => file,
            None => File::open(&self.source.path).map_err(lost("open"))?,
        };
        file.read_exact_at(to, offset).map_err(lost("read"))?;
        *open = Some((input, file));
        self.check(to)
    }

    /// Reject bytes that differ from those scanned, or that are not a row.
    fn check(&self, record: &[u8]) -> Result<()> {
        check_unchanged(self.source, self.place, self.digest, record)?;
        if self.unread && !is_row(record) { Err(self.source.unwritable(self.place.offset)) } else { Ok(()) }
    }
}

/// Read records again, each into a slice of its length; a file is opened once for all of its records, and a
/// record that is requested several times is read once.
///
/// # Errors
/// As [`fetch_each`]; [`Error::Unwritable`](crate::Error::Unwritable) for a record that was not validated and
/// is not a row.
pub(crate) fn fetch_into(mut records: Vec<(RecordAtRest<'_>, &mut [u8])>) -> Result<()> {
    records.sort_unstable_by_key(|(record, _)| (record.place.input, record.place.offset));
    let mut file: Option<(usize, File)> = None;
    let mut last: Option<(Place, &[u8])> = None;
    for (record, to) in records {
        match last {
            Some((place, read)) if place == record.place => to.copy_from_slice(read),
            _ => record.read(&mut file, to)?,
        }
        last = Some((record.place, to));
    }
    Ok(())
}

/// Reject a record that differs from the one scanned.
fn check_unchanged(source: &Source, place: Place, digest: u64, record: &[u8]) -> Result<()> {
    if upper(id128(record)) == digest { Ok(()) } else { Err(source.changed(place.offset)) }
}

/// Bytes of a packed file skipped at a time: as much as a block of zstd holds, and less than a cache.
const PASSED: usize = 1 << 17;

/// Skip the next so many bytes of a stream; it may end before.
fn pass(stream: &mut impl Read, mut bytes: u64, room: &mut [u8]) -> io::Result<()> {
    while bytes > 0 {
        let most = usize::try_from(bytes).map_or(room.len(), |bytes| bytes.min(room.len()));
        match stream.read(&mut room[..most]) {
            Ok(0) => break,
            Ok(count) => bytes -= count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reader of a file at ascending offsets: seeking in a plain file, unpacking in a packed one.
enum RecordReader<'w> {
    Plain(File),
    Packed { stream: Stream<'w>, at: u64, passed: Vec<u8> },
}

impl<'w> RecordReader<'w> {
    fn open(source: &Source, watch: &'w Watch) -> io::Result<Self> {
        Ok(match source.codec {
            Codec::Plain => Self::Plain(File::open(&source.path)?),
            Codec::Gzip | Codec::Zstd => {
                Self::Packed { stream: source.again(watch)?, at: 0, passed: vec![0; PASSED] }
            }
        })
    }

    /// Open a packed file at a frame; a plain one is read at any offset.
    fn open_at(source: &Source, (first, offset): (u64, u64), watch: &'w Watch) -> io::Result<Self> {
        if offset == 0 || source.codec == Codec::Plain {
            return Self::open(source, watch);
        }
        let mut file = File::open(&source.path)?;
        file.seek(SeekFrom::Start(first))?;
        let stream: Stream<'w> = Box::new(Watched::new(unpacked(file, source.codec)?, watch));
        Ok(Self::Packed { stream, at: offset, passed: vec![0; PASSED] })
    }

    fn record(&mut self, place: Place) -> io::Result<Vec<u8>> {
        let mut record = vec![0; place.length as usize];
        match self {
            Self::Plain(file) => {
                file.read_exact_at(&mut record, place.offset)?;
            }
            Self::Packed { stream, at, passed } => {
                pass(stream, place.offset - *at, passed)?;
                stream.read_exact(&mut record)?;
                *at = place.offset + u64::from(place.length);
            }
        }
        Ok(record)
    }
}
