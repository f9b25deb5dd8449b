//! Byte ranges of a plain file of lines for several threads: a line belongs to the range in which it begins.

use super::{JsonLines, Lines, Pieces};
use crate::cancel::Watch;
use crate::framing::StreamError;
use crate::input::codec::Codec;
use crate::input::source::{Source, Stream, Watched};

/// Bytes per range of a plain file: small enough that a slow core does not delay the others.
pub const RANGE: u64 = 8 << 20;

/// Records of one file that begin in a range of its bytes.
#[derive(Clone, Copy)]
pub struct RangeTask {
    /// Index of the file.
    pub input: usize,
    start: u64,
    end: u64,
    /// True if the file has other ranges.
    is_range: bool,
}

impl RangeTask {
    /// Return a task for the whole file.
    #[must_use]
    pub fn whole(input: usize) -> Self {
        Self { input, start: 0, end: u64::MAX, is_range: false }
    }
}

/// Split a file of lines into ranges of `length` bytes; a packed file is one range.
#[must_use]
pub fn ranges(input: usize, source: &Source, length: u64) -> Vec<RangeTask> {
    let size = source.size;
    if source.codec != Codec::Plain || size == 0 {
        // A file of size zero is empty, or a system file without a known size.
        return vec![RangeTask::whole(input)];
    }
    let count = size.div_ceil(length);
    let range = |at: u64| {
        let end = size.min((at + 1).saturating_mul(length));
        RangeTask { input, start: at * length, end, is_range: count > 1 }
    };
    (0..count).map(range).collect()
}

/// Return the texts of a range.
///
/// # Errors
/// [`StreamError`] if the file cannot be opened.
pub fn lines<'w>(
    source: &Source,
    task: RangeTask,
    limit: usize,
    watch: &'w Watch,
) -> Result<Pieces<Stream<'w>>, StreamError> {
    let mut lines = each_line(source, task, limit, watch)?;
    if task.start == 0 {
        lines.skip_mark().map_err(StreamError::Read)?;
    }
    Ok(Pieces::Lines(JsonLines::new(lines, task.is_range)))
}

/// Return the lines of a range, each on its own, as they stand in the file.
pub(crate) fn each_line<'w>(
    source: &Source,
    task: RangeTask,
    limit: usize,
    watch: &'w Watch,
) -> Result<Lines<Stream<'w>>, StreamError> {
    if task.start == 0 {
        let reader = source.reader(watch).map_err(StreamError::Other)?;
        return Ok(Lines::new(reader, 0, task.end, limit));
    }
    // One byte earlier: a line that begins exactly at the cut belongs to this range.
    let start = task.start - 1;
    let file = source.reader_at(start).map_err(StreamError::Other)?;
    let reader: Stream<'w> = Box::new(Watched::new(file, watch));
    let mut lines = Lines::new(reader, start, task.end, limit);
    lines.skip_line().map_err(StreamError::Read)?;
    Ok(lines)
}
