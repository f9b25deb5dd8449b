//! Parallel reading of many files into one log, the same for any number of threads.
//!
//! A plain file of lines is cut into ranges of bytes; a line belongs to the range in which it begins. Every
//! other file is one range. Threads take ranges from a shared counter; their tallies are joined in the order
//! of files and ranges, and the rows in an order that depends only on the records (`rows`), so the result
//! does not depend on the speed of threads.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::cancel::Watch;
use crate::columns::{LogColumns, NameTables, RowBins, RowSink, ThreadRows, columns};
use crate::detect::{FileLayout, Input, Wishes, probe, records};
use crate::error::{DOCUMENT, Error, Result, by_name};
use crate::extract::{self, Scanner};
use crate::framing::lines::{RANGE, RangeTask, open_range, split_into_ranges};
use crate::framing::{Batch, Pieces, StreamError, TextBatch};
use crate::input::codec::{Codec, is_damage};
use crate::input::source::{Source, Stream};
use crate::log::Log;
use crate::parallel::share;
use crate::rejects::{FileTally, RejectReason};

/// Settings of reading.
#[derive(Clone, Debug)]
pub struct ReadSettings {
    /// Settings of detection.
    pub wishes: Wishes,
    /// Settings of scanning.
    pub scan: extract::ScanSettings,
    /// Number of threads; at least one is used.
    pub threads: usize,
}

impl ReadSettings {
    fn is_ordered(&self) -> bool {
        self.wishes.overrides.order.is_some()
    }

    /// Return the number of columns of numbers: components of the reward, and the order if one was named.
    pub(crate) fn columns(&self) -> usize {
        self.wishes.overrides.reward.as_ref().map_or(1, Vec::len) + usize::from(self.is_ordered())
    }
}

/// Read every file.
///
/// # Errors
/// The first failure in the order of the files: [`Error::Io`], [`Error::Unread`], [`Error::Layout`],
/// [`Error::Document`], [`Error::Field`], or [`Error::Interrupted`]. A damaged record is not a failure: it is
/// counted in the log.
pub fn read(sources: Vec<Source>, settings: &ReadSettings, watch: &Watch) -> Result<Log> {
    read_in_ranges(sources, settings, RANGE, watch)
}

/// Do as [`read`], with plain files of lines cut into ranges of so many bytes (at least one): the log is the
/// same.
///
/// # Errors
/// As [`read`].
pub fn read_in_ranges(
    sources: Vec<Source>,
    settings: &ReadSettings,
    range: u64,
    watch: &Watch,
) -> Result<Log> {
    let (mut inputs, mut skipped, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for source in sources {
        match probe_or_skip(source, &settings.wishes, watch)? {
            Probed::Input(input) => inputs.push(*input),
            Probed::Skipped(path, why) => skipped.push((path, why)),
            Probed::Refused(path, why) => refused.push((path, why)),
        }
    }
    for input in &mut inputs {
        input.source.ahead = settings.threads > 1;
    }
    if inputs.iter().all(|input| input.source.codec == Codec::Plain) {
        watch.expect(inputs.iter().map(|input| input.source.size).sum());
    }
    let components = settings.columns();
    let (rows, vocabulary, tasks, tallies) = loop {
        let tasks: Vec<RangeTask> =
            inputs.iter().enumerate().flat_map(|(at, input)| tasks_of(at, input, range.max(1))).collect();
        let vocabulary = NameTables::new();
        let (rows, tallies) =
            run(&inputs, &tasks, settings, || RowBins::new(components, &vocabulary), watch)?;
        if !read_again(&mut inputs, tasks.iter().zip(&tallies), watch) {
            break (rows, vocabulary, tasks, tallies);
        }
    };
    let tallies = tasks.iter().map(|task| task.input).zip(tallies);
    let columns = columns(rows, vocabulary, components, settings.threads);
    let mut log = to_log(inputs, tallies, columns, settings)?;
    (log.skipped, log.refused) = (skipped, refused);
    Ok(log)
}

/// Return the log of merged columns: the last component is the order, if a field of it was named.
pub(crate) fn to_log(
    inputs: Vec<Input>,
    tallies: impl Iterator<Item = (usize, FileTally)>,
    mut columns: LogColumns,
    settings: &ReadSettings,
) -> Result<Log> {
    let order = if settings.is_ordered() { columns.components.pop() } else { None };
    let mut log = Log::new(inputs, tallies, columns, settings.scan.compare)?;
    log.order = order;
    Ok(log)
}

/// File that holds records, or that is skipped, as only a file found in a folder is.
pub enum Probed {
    /// File with records.
    Input(Box<Input>),
    /// File without records, and why.
    Skipped(PathBuf, String),
    /// File that may hold records but is not supported, and why.
    Refused(PathBuf, String),
}

/// Detect layout and format of a file.
///
/// # Errors
/// As [`probe`], for a file that is not optional.
pub fn probe_or_skip(source: Source, wishes: &Wishes, watch: &Watch) -> Result<Probed> {
    let optional = source.optional;
    let probed = probe(source, wishes, watch);
    watch.advance(0)?;
    Ok(match probed {
        Err(Error::Layout { path, problem }) if optional => Probed::Skipped(path, problem),
        Err(Error::Unread { path, why }) if optional => Probed::Refused(path, why.to_string()),
        Err(Error::ByName { path, holder }) if optional => Probed::Refused(path, by_name(&holder)),
        Err(Error::Document { path, .. }) if optional => Probed::Skipped(path, DOCUMENT.to_owned()),
        probed => Probed::Input(Box::new(probed?)),
    })
}

/// Return the ranges of a file of lines; any other is one range, and so is one with a record that spans
/// several ranges.
#[must_use]
pub fn tasks_of(at: usize, input: &Input, range: u64) -> Vec<RangeTask> {
    if input.layout == FileLayout::Lines && !input.in_one {
        split_into_ranges(at, &input.source, range)
    } else {
        vec![RangeTask::whole(at)]
    }
}

/// Return whether some files have to be read again as a whole: the start of a range inside a record is
/// unknown.
pub fn read_again<'a>(
    inputs: &mut [Input],
    done: impl Iterator<Item = (&'a RangeTask, &'a FileTally)>,
    watch: &Watch,
) -> bool {
    let mut again = false;
    for (task, _) in done.filter(|(_, tally)| tally.beyond) {
        inputs[task.input].in_one = true;
        again = true;
    }
    if again {
        watch.expect(2 * watch.expected());
    }
    again
}

/// Return the rows of each thread, and the tally of each task.
fn run<'v>(
    inputs: &[Input],
    tasks: &[RangeTask],
    settings: &ReadSettings,
    rows: impl Fn() -> RowBins<'v> + Sync,
    watch: &Watch,
) -> Result<(Vec<ThreadRows>, Vec<FileTally>)> {
    let done: Vec<Mutex<Option<Result<FileTally>>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    let rows = share(tasks.len(), settings.threads, |queue| {
        let mut rows = rows();
        while let Some(at) = queue.take() {
            let tally = one(&inputs[tasks[at].input], tasks[at], settings, &mut rows, watch);
            if tally.is_err() {
                queue.close();
            }
            *done[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(tally);
        }
        rows.finish()
    });
    // A skipped range comes after a failed one: the failure is found first.
    let results =
        done.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok((rows, results.collect::<Result<Vec<FileTally>>>()?))
}

fn one(
    input: &Input,
    task: RangeTask,
    settings: &ReadSettings,
    rows: &mut RowBins<'_>,
    watch: &Watch,
) -> Result<FileTally> {
    let mut scanner = Scanner::new(task.input, &input.fields, settings.scan);
    let mut tally = FileTally::default();
    let read = pieces(input, task, settings.wishes.max_line_bytes, watch)
        .and_then(|pieces| scan_all(pieces, &mut scanner, rows, &mut tally, watch));
    end(read, &input.source.name, input.source.codec, &mut tally)?;
    Ok(tally)
}

/// Scan all texts of a stream.
///
/// # Errors
/// [`StreamError`] if reading stops before the end.
pub fn scan_all(
    mut pieces: Pieces<Stream<'_>>,
    scanner: &mut Scanner,
    rows: &mut impl RowSink,
    tally: &mut FileTally,
    watch: &Watch,
) -> std::result::Result<(), StreamError> {
    let mut clock = Clock { watch, bytes: 0 };
    while let Some(Batch { texts, passed }) = pieces.next().map_err(StreamError::Read)? {
        if matches!(texts, TextBatch::Beyond) {
            return Err(StreamError::Beyond);
        }
        tally.lines += passed;
        let length = texts.num_bytes();
        let open = scanner.texts(&texts, rows, tally);
        pieces.open(open);
        clock.tick(length)?;
    }
    watch.advance(clock.bytes).map_err(StreamError::Other)
}

/// Convert the end of a scan: damage to packed bytes is a rejected row, everything else a failure.
///
/// # Errors
/// [`crate::Error`] of any other failure.
pub fn end(
    read: std::result::Result<(), StreamError>,
    name: &str,
    codec: Codec,
    tally: &mut FileTally,
) -> Result<()> {
    match read {
        Err(StreamError::Read(error)) if codec != Codec::Plain && is_damage(&error) => {
            tally.lines += 1;
            tally.bad(tally.reached, RejectReason::DamagedStream);
            Ok(())
        }
        Err(StreamError::Read(error)) => Err(Error::io("read", Path::new(name), error)),
        Err(StreamError::Other(error)) => Err(error),
        Err(StreamError::Beyond) => {
            tally.beyond = true;
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Clock that updates the watch at intervals: threads that all wrote to it for every record would contend.
struct Clock<'a> {
    watch: &'a Watch,
    bytes: u64,
}

impl Clock<'_> {
    const EVERY: u64 = 1 << 18;

    fn tick(&mut self, bytes: usize) -> std::result::Result<(), StreamError> {
        self.bytes += bytes as u64;
        if self.bytes >= Self::EVERY {
            self.watch.advance(std::mem::take(&mut self.bytes)).map_err(StreamError::Other)?;
        }
        Ok(())
    }
}

/// Return the texts of a task.
///
/// # Errors
/// [`StreamError`] if the file cannot be opened.
pub fn pieces<'w>(
    input: &Input,
    task: RangeTask,
    limit: usize,
    watch: &'w Watch,
) -> std::result::Result<Pieces<Stream<'w>>, StreamError> {
    if input.layout == FileLayout::Lines {
        return open_range(&input.source, task, limit, watch);
    }
    let stream = input.source.stream(watch).map_err(StreamError::Read)?;
    records(stream, &input.layout, limit).map_err(StreamError::Read)
}
