//! A plain file of lines, cut into ranges of bytes for several threads: a line belongs to the range in which it begins.

use super::{JsonLines, Lines, Pieces};
use crate::cancel::Watch;
use crate::framing::Fail;
use crate::input::codec::Codec;
use crate::input::source::{Source, Stream, Watched};

/// How much of a plain file one range holds: small enough that a slow core does not hold up the others.
pub(crate) const RANGE: u64 = 8 << 20;

/// The records of one file that begin in a range of its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pub(crate) input: usize,
    start: u64,
    end: u64,
    /// Whether the file has others.
    is_range: bool,
}

impl Task {
    /// All of a file.
    pub(crate) fn whole(input: usize) -> Self {
        Self { input, start: 0, end: u64::MAX, is_range: false }
    }
}

/// The ranges of a file of lines, of so many bytes each; a packed one is one range.
pub(crate) fn ranges(input: usize, source: &Source, length: u64) -> Vec<Task> {
    let size = source.size;
    if source.codec != Codec::Plain || size == 0 {
        // A file of no size is empty, or one of the system's that does not tell it.
        return vec![Task::whole(input)];
    }
    let count = size.div_ceil(length);
    let range = |at: u64| {
        let end = size.min((at + 1).saturating_mul(length));
        Task { input, start: at * length, end, is_range: count > 1 }
    };
    (0..count).map(range).collect()
}

/// The lines of a range.
pub(crate) fn lines<'w>(
    source: &Source,
    task: Task,
    limit: usize,
    watch: &'w Watch,
) -> Result<Pieces<Stream<'w>>, Fail> {
    if task.start == 0 {
        let reader = source.reader(watch).map_err(Fail::Other)?;
        let mut lines = Lines::new(reader, 0, task.end, limit);
        lines.skip_mark().map_err(Fail::Read)?;
        return Ok(Pieces::Lines(JsonLines::new(lines, task.is_range)));
    }
    // One byte back: a line that begins exactly at the cut is this range's.
    let start = task.start - 1;
    let file = source.reader_at(start).map_err(Fail::Other)?;
    let reader: Stream<'w> = Box::new(Watched::new(file, watch));
    let mut lines = Lines::new(reader, start, task.end, limit);
    lines.skip_line().map_err(Fail::Read)?;
    Ok(Pieces::Lines(JsonLines::new(lines, task.is_range)))
}
