//! Data sets read back: numbers and hashes of their rows, for a comparison of two.
//!
//! A file of rows is read in ranges by several threads; the table is the same for any number of them.

mod row;
mod table;

use std::path::Path;

pub use row::RowProblem;
pub use table::RowTable;

use self::row::RowReader;
use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::framing::byte_ranges::{RANGE, RangeTask, each_line, ranges};
use crate::framing::{Piece, StreamError};
use crate::input::source::Source;
use crate::parallel::map;

/// First row of a file that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Number of its line, from 1.
    pub line: usize,
    /// Problem.
    pub problem: RowProblem,
}

/// Read every row of a file. Rows that are `stamped` have an object `karl_fast` with their id, group and
/// reward; others are lines as they were logged.
///
/// # Errors
/// [`Error::Io`], or [`Error::Interrupted`].
pub fn read_rows(
    path: &Path,
    stamped: bool,
    threads: usize,
    watch: &Watch,
) -> Result<std::result::Result<RowTable, BadRow>> {
    read_in_ranges(path, stamped, threads, RANGE, watch)
}

fn read_in_ranges(
    path: &Path,
    stamped: bool,
    threads: usize,
    range: u64,
    watch: &Watch,
) -> Result<std::result::Result<RowTable, BadRow>> {
    let source = Source::open(path, &path.to_string_lossy())?;
    let parts = map(ranges(0, &source, range), threads, |task| one_range(&source, task, stamped, watch));
    let mut all = RowTable::default();
    for part in parts {
        match part? {
            Ok(part) => all.append(part),
            Err(bad) => return Ok(Err(BadRow { line: all.rows() + bad.line, ..bad })),
        }
    }
    Ok(Ok(all))
}

/// Read the rows of one range; line numbers count from its start.
fn one_range(
    source: &Source,
    task: RangeTask,
    stamped: bool,
    watch: &Watch,
) -> Result<std::result::Result<RowTable, BadRow>> {
    let failed = |error| match error {
        StreamError::Read(error) => source.failed("read", error),
        StreamError::Other(error) => error,
        StreamError::Beyond => Error::Interrupted,
    };
    let mut lines = each_line(source, task, usize::MAX, watch).map_err(failed)?;
    let (mut reader, mut table) = (RowReader::new(stamped), RowTable::default());
    while let Some(piece) = lines.next().map_err(|error| source.failed("read", error))? {
        let Piece::Text { bytes, .. } = piece else { continue };
        match reader.read(bytes) {
            Ok(row) => table.push(&row),
            Err(problem) => return Ok(Err(BadRow { line: table.rows() + 1, problem })),
        }
    }
    Ok(Ok(table))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn the_table_is_the_same_for_any_ranges_and_threads() {
        let mut text = String::new();
        for at in 0..100 {
            let messages = r#"{"role":"assistant","content":"é]"},"#.repeat(at % 5);
            writeln!(
                text,
                r#"{{"messages":[{messages}{{"role":"user"}}],"karl_fast":{{"id":"{at}","group":null,"reward":{at}.5}}}}"#
            )
            .unwrap();
        }
        let file = written(&text);
        let whole = read_rows(file.path(), true, 1, &Watch::new()).unwrap().unwrap();
        assert_eq!(whole.rows(), 100);
        assert_eq!((whole.messages[9], whole.turns[9], whole.rewards[9]), (5, 4, 9.5));
        for (range, threads) in [(7, 2), (97, 3), (4096, 2)] {
            let parts = read_in_ranges(file.path(), true, threads, range, &Watch::new()).unwrap().unwrap();
            assert_eq!(parts, whole, "{range}");
        }
    }

    #[test]
    fn a_damaged_row_is_named_by_the_number_of_its_line() {
        let good = r#"{"karl_fast":{"id":null,"group":"g","reward":null}}"#;
        let file = written(&format!("{}{{\n{good}\n", format!("{good}\n").repeat(40)));
        for range in [7, 100, RANGE] {
            let found = read_in_ranges(file.path(), true, 2, range, &Watch::new()).unwrap();
            assert_eq!(found, Err(BadRow { line: 41, problem: RowProblem::NoJson }), "{range}");
        }
    }
}
