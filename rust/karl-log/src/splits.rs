//! Log that several processes read, each some splits of it, and one process joins.
//!
//! ```text
//! probe ──► Input                     one process: layout, format and fields of a file
//!             └──► scan ──► part      any process: rows and counts of a range of bytes, as bytes of its own
//!                            └──► join ──► log      one process: the log that `read` gives of the same files
//! ```
//!
//! A part takes 48 bytes a row, 16 more with fingerprints, and the names of its groups once each. Parts are kept in one
//! spool file until all are there, because a record that spans several lines is known only where a range meets one:
//! then the parts of its file are dropped, and the file is scanned as a whole.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytemuck::{Pod, cast_slice, pod_read_unaligned};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::cancel::Watch;
use crate::columns::{NameTables, PackedPlace, RowBins, RowSink, ScannedRow, ThreadRows, columns};
use crate::detect::{FileLayout, Input, records};
use crate::error::{Error, Result};
use crate::extract::Scanner;
use crate::format::{Fields, Format};
use crate::framing::{JsonLines, Lines, Pieces, StreamError, ValueEnd, Window};
use crate::input::codec::{Codec, is_damage, unpacked};
use crate::input::source::{Source, Stream, Watched};
use crate::intern::NONE;
use crate::log::Log;
use crate::parallel::share;
use crate::read::{ReadSettings, end, scan_all, to_log};
use crate::rejects::FileTally;

/// What a process needs to know of a file besides its bytes.
#[derive(Clone, Debug)]
pub struct FileForm {
    /// Layout of its records.
    pub layout: FileLayout,
    /// Format of the tool that wrote it.
    pub format: &'static Format,
    /// Number that its format takes from a file beside it.
    pub number: Option<u64>,
    /// Compression.
    pub codec: Codec,
}

impl From<&Input> for FileForm {
    fn from(input: &Input) -> Self {
        Self {
            layout: input.layout.clone(),
            format: input.format,
            number: input.beside.as_ref().and_then(|beside| beside.number.as_ref().ok().copied()),
            codec: input.source.codec,
        }
    }
}

/// Bytes of a file that one process scans.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// Range of the unpacked bytes in which a record of the split begins; the whole file if `None`.
    pub range: Option<(u64, u64)>,
    /// Frames of a packed file that unpack to that range: their first byte, and the end of the last one.
    pub frames: Option<(u64, u64)>,
    /// Offset of the first byte of the copy that is scanned in the file itself.
    pub base: u64,
}

/// Rows and counts of a split.
#[derive(Clone, Debug)]
pub struct ScannedSplit {
    /// Encoded part; empty if the file has to be scanned as a whole.
    pub part: Vec<u8>,
    /// True if a record spans several lines of the range, or frames are damaged: the file has to be scanned as a
    /// whole.
    pub beyond: bool,
    /// True if the scan met the end of the bytes: where the copy ends before the file, it has to be longer.
    pub ended: bool,
}

/// Number of records of the beginning that decide the format of a file, and one more.
const ENOUGH: usize = 101;

/// Return whether the beginning of a file shows its layout and format as the whole file would: it holds the first
/// value in full, and as many lines as are examined.
///
/// # Errors
/// [`Error::Io`].
pub fn is_enough(head: &Source, limit: usize, watch: &Watch) -> Result<bool> {
    let failed = |error| head.failed("read", error);
    let mut window = Window::new(head.undamaged(watch).map_err(failed)?, 0);
    let first = window.skip_mark().and_then(|()| {
        if window.peek()? == Some(b'[') {
            window.consume(1);
            window.peek()?;
        }
        window.value(limit)
    });
    if !matches!(first.map_err(failed)?, ValueEnd::Kept(_)) {
        return Ok(false);
    }
    let mut lines = Lines::new(head.undamaged(watch).map_err(failed)?, 0, u64::MAX, limit);
    for _ in 0..ENOUGH {
        if lines.next().map_err(failed)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Return the fields of the records of a file.
///
/// # Errors
/// [`Error::Field`] for an invalid field.
pub fn fields_of(name: &str, form: &FileForm, settings: &ReadSettings) -> Result<Fields> {
    let fields = Fields::new(form.format, &settings.wishes.overrides, form.number)?.in_file(name);
    Ok(fields.with_names(matches!(form.layout, FileLayout::Named(_))))
}

/// Scan the records that begin in a split of a file; `copy` holds its bytes.
///
/// # Errors
/// As [`read`](crate::read::read).
pub fn scan(
    copy: &Path,
    name: &str,
    form: &FileForm,
    split: Split,
    settings: &ReadSettings,
    watch: &Watch,
) -> Result<ScannedSplit> {
    let fields = fields_of(name, form, settings)?;
    let mut scanner = Scanner::new(0, &fields, settings.scan);
    let mut rows = PartRows::default();
    let mut tally = FileTally::default();
    let ended = Arc::new(AtomicBool::new(false));
    let read = open(copy, name, form, split, settings.wishes.max_line_bytes, &ended, watch)
        .and_then(|pieces| scan_all(pieces, &mut scanner, &mut rows, &mut tally, watch));
    // What is behind damage is no part of the file; and of a copy the last frame may be cut.
    let is_damaged =
        split.frames.is_some() && matches!(&read, Err(StreamError::Read(error)) if is_damage(error));
    ended.fetch_or(is_damaged, Relaxed);
    end(read, name, form.codec, &mut tally)?;
    watch.advance(0)?;
    let beyond = tally.beyond || is_damaged;
    let part = if beyond { Vec::new() } else { rows.encode(&tally) };
    Ok(ScannedSplit { part, beyond, ended: ended.load(Relaxed) })
}

fn open<'w>(
    copy: &Path,
    name: &str,
    form: &FileForm,
    split: Split,
    limit: usize,
    ended: &Arc<AtomicBool>,
    watch: &'w Watch,
) -> std::result::Result<Pieces<Stream<'w>>, StreamError> {
    let Some((start, until)) = split.range else {
        let source = Source { codec: form.codec, ..Source::open(copy, name).map_err(StreamError::Other)? };
        let stream = source.reader(watch).map_err(StreamError::Other)?;
        return records(stream, &form.layout, limit).map_err(StreamError::Read);
    };
    if let Some(frames) = split.frames {
        let reader = FrameReader::open(copy, frames, split.base, until - start, form.codec)
            .map_err(StreamError::Read)?;
        let reader: Stream<'w> =
            Box::new(Watched::new(EndSensor { reader, ended: Arc::clone(ended) }, watch));
        // The byte before is in another frame: a line that begins exactly at the cut belongs to the range before.
        let mut lines = Lines::new(reader, start, until + 1, limit);
        if start == 0 { lines.skip_mark() } else { lines.skip_line() }.map_err(StreamError::Read)?;
        return Ok(Pieces::Lines(JsonLines::new(lines, true)));
    }
    // One byte earlier: a line that begins exactly at the cut belongs to this range.
    let first = start.saturating_sub(1);
    let mut file = File::open(copy).map_err(StreamError::Read)?;
    file.seek(SeekFrom::Start(first.saturating_sub(split.base))).map_err(StreamError::Read)?;
    let reader: Stream<'w> =
        Box::new(Watched::new(EndSensor { reader: file, ended: Arc::clone(ended) }, watch));
    let mut lines = Lines::new(reader, first, until, limit);
    if start == 0 { lines.skip_mark() } else { lines.skip_line() }.map_err(StreamError::Read)?;
    Ok(Pieces::Lines(JsonLines::new(lines, true)))
}

/// Reader of the frames of a range, and then of those behind it. Frames that unpack to more or fewer bytes than was said
/// are damaged: no offset behind them would be right.
struct FrameReader {
    frames: Box<dyn Read + Send>,
    left: u64,
    is_past: bool,
    behind: Box<dyn Read + Send>,
}

impl FrameReader {
    fn open(copy: &Path, (first, end): (u64, u64), base: u64, size: u64, codec: Codec) -> io::Result<Self> {
        let mut file = File::open(copy)?;
        let mut rest = File::open(copy)?;
        file.seek(SeekFrom::Start(first.saturating_sub(base)))?;
        let has_more = rest.metadata()?.len() > end.saturating_sub(base);
        rest.seek(SeekFrom::Start(end.saturating_sub(base)))?;
        let frames = unpacked(file.take(end.saturating_sub(first)), codec)?;
        let behind = if has_more { unpacked(rest, codec)? } else { Box::new(io::empty()) };
        Ok(Self { frames, left: size, is_past: false, behind })
    }
}

impl Read for FrameReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.is_past && !out.is_empty() {
            let count = self.frames.read(out)?;
            let wrong = || io::Error::new(io::ErrorKind::InvalidData, "frames of another size than was said");
            self.left = self.left.checked_sub(count as u64).ok_or_else(wrong)?;
            if count > 0 {
                return Ok(count);
            }
            if self.left > 0 {
                return Err(wrong());
            }
            self.is_past = true;
        }
        self.behind.read(out)
    }
}

/// Return the bytes that frames of a packed file unpack to; `None` if they are damaged.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, [`Error::Interrupted`].
pub fn unpacked_size(
    copy: &Path,
    name: &str,
    (first, end): (u64, u64),
    base: u64,
    codec: Codec,
    watch: &Watch,
) -> Result<Option<u64>> {
    let io = |error| Error::io("read", Path::new(name), error);
    let mut file = File::open(copy).map_err(io)?;
    file.seek(SeekFrom::Start(first.saturating_sub(base))).map_err(io)?;
    let frames = unpacked(file.take(end.saturating_sub(first)), codec).map_err(io)?;
    let size = io::copy(&mut Watched::new(frames, watch), &mut io::sink());
    watch.advance(0)?;
    match size {
        Err(error) if is_damage(&error) => Ok(None),
        size => size.map(Some).map_err(io),
    }
}

/// Reader that notes whether its consumer met its end.
struct EndSensor<R> {
    reader: R,
    ended: Arc<AtomicBool>,
}

impl<R: Read> Read for EndSensor<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(out)?;
        if count == 0 && !out.is_empty() {
            self.ended.store(true, Relaxed);
        }
        Ok(count)
    }
}

/// Names of one column, numbered in the order of their first use.
#[derive(Debug, Default)]
struct PartNames {
    numbers: FxHashMap<Box<[u8]>, u32>,
    lengths: Vec<u32>,
    bytes: Vec<u8>,
    codes: Vec<u32>,
}

impl PartNames {
    fn push(&mut self, name: Option<&[u8]>) {
        let code = name.map_or(NONE, |name| {
            self.numbers.get(name).copied().unwrap_or_else(|| {
                let code = u32::try_from(self.lengths.len()).unwrap_or(NONE);
                self.numbers.insert(name.into(), code);
                // A record, and so a name in it, has less than 4 GiB.
                self.lengths.push(u32::try_from(name.len()).unwrap_or(u32::MAX));
                self.bytes.extend_from_slice(name);
                code
            })
        });
        self.codes.push(code);
    }
}

/// Rows of a part while it is scanned.
#[derive(Debug, Default)]
struct PartRows {
    ids: Vec<u128>,
    digests: Vec<u64>,
    offsets: Vec<u64>,
    lengths: Vec<u32>,
    rewards: Vec<f64>,
    fingerprints: Vec<u128>,
    names: [PartNames; 3],
}

impl RowSink for PartRows {
    fn push(&mut self, row: &ScannedRow<'_>) {
        self.ids.push(row.id);
        self.digests.push(row.digest);
        self.offsets.push(row.spot.place(0).offset);
        self.lengths.push(row.length);
        self.rewards.extend_from_slice(row.rewards);
        self.fingerprints.extend(row.fingerprint);
        for (names, name) in self.names.iter_mut().zip([row.group, row.domain, row.partition]) {
            names.push(name);
        }
    }
}

/// First bytes of a part.
const MAGIC: &[u8; 8] = b"karlpt01";

/// Beginning of a part, before its columns.
#[derive(Debug, Serialize, Deserialize)]
struct PartHeader {
    rows: usize,
    /// Numbers in the column of rewards for each row.
    width: usize,
    fingerprints: bool,
    /// Number of names and of their bytes, for each column of names; `None` for a column without any.
    names: [Option<(usize, usize)>; 3],
    tally: FileTally,
}

impl PartRows {
    fn encode(&self, tally: &FileTally) -> Vec<u8> {
        let rows = self.ids.len();
        let header = PartHeader {
            rows,
            width: self.rewards.len().checked_div(rows).unwrap_or(0),
            fingerprints: !self.fingerprints.is_empty(),
            names: self
                .names
                .each_ref()
                .map(|names| (!names.lengths.is_empty()).then_some((names.lengths.len(), names.bytes.len()))),
            tally: tally.clone(),
        };
        let header = serde_json::to_vec(&header).unwrap_or_default();
        let mut part = Vec::with_capacity(64 + header.len() + rows * 72);
        part.extend_from_slice(MAGIC);
        part.extend_from_slice(&(header.len() as u64).to_le_bytes());
        part.extend_from_slice(&header);
        part.extend_from_slice(cast_slice(&self.ids));
        part.extend_from_slice(cast_slice(&self.digests));
        part.extend_from_slice(cast_slice(&self.offsets));
        part.extend_from_slice(cast_slice(&self.lengths));
        part.extend_from_slice(cast_slice(&self.rewards));
        part.extend_from_slice(cast_slice(&self.fingerprints));
        for names in self.names.iter().filter(|names| !names.lengths.is_empty()) {
            part.extend_from_slice(cast_slice(&names.codes));
            part.extend_from_slice(cast_slice(&names.lengths));
            part.extend_from_slice(&names.bytes);
        }
        let hash = XxHash3_64::oneshot(&part);
        part.extend_from_slice(&hash.to_le_bytes());
        part
    }
}

/// Names of one column of a part, as they are in it.
struct NameColumn {
    codes: Vec<u32>,
    /// End of each name in the bytes.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl NameColumn {
    fn name(&self, row: usize) -> Option<&[u8]> {
        let code = *self.codes.get(row)? as usize;
        let end = *self.ends.get(code)?;
        self.bytes.get(code.checked_sub(1).map_or(0, |before| self.ends[before])..end)
    }
}

/// Reader of the columns of a part.
struct PartReader<'a>(&'a [u8]);

impl PartReader<'_> {
    /// Return the next `count` values; `None` if fewer are left.
    fn column<T: Pod>(&mut self, count: usize) -> Option<Vec<T>> {
        let (column, rest) = self.0.split_at_checked(count.checked_mul(size_of::<T>())?)?;
        self.0 = rest;
        Some(column.chunks_exact(size_of::<T>()).map(pod_read_unaligned).collect())
    }

    fn names(&mut self, rows: usize, (count, bytes): (usize, usize)) -> Option<NameColumn> {
        let (codes, lengths) = (self.column(rows)?, self.column::<u32>(count)?);
        let mut end = 0;
        let ends = lengths.into_iter().map(|length| {
            end += length as usize;
            end
        });
        Some(NameColumn { codes, ends: ends.collect(), bytes: self.column(bytes)? })
    }
}

/// Return whether a part is whole.
#[must_use]
pub fn is_sound(part: &[u8]) -> bool {
    without_hash(part).is_some()
}

/// Return a part without the hash at its end; `None` if the part is damaged.
fn without_hash(part: &[u8]) -> Option<&[u8]> {
    let (part, hash) = part.split_at_checked(part.len().checked_sub(8)?)?;
    (XxHash3_64::oneshot(part).to_le_bytes() == hash).then_some(part)
}

/// Push the rows of a part, with the number of their file; return its counts, or `None` if the part is damaged.
fn replay(part: &[u8], input: usize, rows: &mut impl RowSink) -> Option<FileTally> {
    let part = without_hash(part)?;
    let (length, rest) = part.strip_prefix(MAGIC)?.split_at_checked(8)?;
    let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    let (header, columns) = rest.split_at_checked(length)?;
    let header: PartHeader = serde_json::from_slice(header).ok()?;
    let mut columns = PartReader(columns);
    let count = header.rows;
    let ids: Vec<u128> = columns.column(count)?;
    let digests: Vec<u64> = columns.column(count)?;
    let offsets: Vec<u64> = columns.column(count)?;
    let lengths: Vec<u32> = columns.column(count)?;
    let rewards: Vec<f64> = columns.column(count.checked_mul(header.width)?)?;
    let fingerprints: Vec<u128> = columns.column(if header.fingerprints { count } else { 0 })?;
    let mut names = [None, None, None];
    for (column, size) in names.iter_mut().zip(header.names) {
        *column = size.map(|size| columns.names(count, size).ok_or(())).transpose().ok()?;
    }
    let name = |column: usize, row: usize| names[column].as_ref()?.name(row);
    for row in 0..count {
        rows.push(&ScannedRow {
            id: ids[row],
            digest: digests[row],
            spot: PackedPlace::new(input, offsets[row])?,
            length: lengths[row],
            rewards: &rewards[row * header.width..(row + 1) * header.width],
            group: name(0, row),
            domain: name(1, row),
            partition: name(2, row),
            fingerprint: fingerprints.get(row).copied(),
            record: b"",
        });
    }
    Some(header.tally)
}

/// Part in the spool file.
#[derive(Clone, Copy, Debug)]
pub struct PartPlace {
    /// Index of the file that it was scanned of.
    pub input: usize,
    /// Offset in the spool file.
    pub offset: u64,
    /// Length in bytes.
    pub length: usize,
}

/// Join parts to the log that [`read`](crate::read::read) gives of the same files; the parts of each file are in the
/// order of its bytes.
///
/// Memory: 52 bytes a row, 8 more for each component of the reward after the first, 16 for fingerprints, 4 for domain
/// and partition each, and the names once; while columns are merged about twice as much.
///
/// # Errors
/// [`Error::Io`] if the spool cannot be read, [`Error::Fetch`] for a damaged part, [`Error::Draw`] for more rows than a
/// `u32` can number.
pub fn join(
    inputs: Vec<Input>,
    spool: &Path,
    parts: &[PartPlace],
    settings: &ReadSettings,
    watch: &Watch,
) -> Result<Log> {
    let file = File::open(spool).map_err(|error| Error::io("open", spool, error))?;
    let (vocabulary, components) = (NameTables::new(), settings.columns());
    watch.expect(parts.iter().map(|part| part.length as u64).sum());
    let done =
        share(parts.len(), settings.threads, |queue| -> Result<(ThreadRows, Vec<(usize, FileTally)>)> {
            let (mut rows, mut tallies) = (RowBins::new(components, &vocabulary), Vec::new());
            while let Some(at) = queue.take() {
                let PartPlace { input, offset, length } = parts[at];
                let mut part = vec![0; length];
                file.read_exact_at(&mut part, offset).map_err(|error| Error::io("read", spool, error))?;
                let damaged =
                    || Error::Fetch(format!("part {at} of {} is damaged", inputs[input].source.name).into());
                tallies.push((at, replay(&part, input, &mut rows).ok_or_else(damaged)?));
                watch.advance(length as u64)?;
            }
            Ok((rows.finish(), tallies))
        });
    let (mut rows, mut tallies) = (Vec::new(), Vec::new());
    for thread in done {
        let (thread_rows, thread_tallies) = thread?;
        rows.push(thread_rows);
        tallies.extend(thread_tallies);
    }
    tallies.sort_unstable_by_key(|&(at, _)| at);
    let columns = columns(rows, vocabulary, components, settings.threads);
    to_log(inputs, tallies.into_iter().map(|(at, tally)| (parts[at].input, tally)), columns, settings)
}

/// Return a file as the second pass reads it: a copy of its bytes, whose records are unpacked already.
#[must_use]
pub fn with_copy(mut input: Input, copy: PathBuf, size: u64, modified_seconds: f64) -> Input {
    input.source = Source { path: copy, codec: Codec::Plain, size, modified_seconds, ..input.source };
    input
}
