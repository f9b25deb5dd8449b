//! Log that is read once, in memory proportional to the records that a draw may need.
//!
//! ```text
//! pipe ──► unpack ──► beginning ──► layout, format
//!                         │
//!                         └──► split ──► scan ──► counts, sums
//!                                          └────► records of the largest keys ──► temporary file ──► log
//! ```
//!
//! The log has only the rows of those records, and describes the others in
//! [`Streamed`](crate::log::Streamed). The later steps (parsing, replacing, writing) are those of a log read
//! from files.

mod candidates;

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use karl_core::stream;

use self::candidates::Candidates;
use crate::cancel::Watch;
use crate::detect::{Input, probe, records};
use crate::error::{Error, Result};
use crate::extract::Scanner;
use crate::framing::StreamError;
use crate::framing::{ValueEnd, Window};
use crate::input::codec::Codec;
use crate::input::pipe::{Pipe, Unpacking};
use crate::input::read_ahead::ReadAhead;
use crate::input::source::{Source, Stream, Watched};
use crate::input::unpack::is_damage;
use crate::log::Log;
use crate::read;
use crate::read::{end, scan_all};
use crate::rejects::FileTally;

/// Bytes of a stream read before its layout is detected, unless its first record is longer.
const BEGINNING: usize = 4 << 20;

/// Read a pipe called `name` to its end. `kept` is an empty file for the records of the log; the log needs it
/// as long as it is used.
///
/// # Errors
/// As [`read::read`], and [`Error::Draw`] for a reward that cannot be weighted.
pub fn read(
    pipe: Pipe,
    name: &str,
    kept: &Path,
    settings: &read::ReadSettings,
    draw: stream::StreamSettings,
    watch: &Watch,
) -> Result<Log> {
    let limit = settings.wishes.max_line_bytes;
    let (unpacking, tap) = Unpacking::new(pipe);
    let mut whole: Stream<'_> = Box::new(Watched::new(ReadAhead::new(unpacking, watch), watch));
    let (begin, broken) = beginning(&mut whole, limit);
    // A cancelled stream looks like one that has ended.
    watch.advance(0)?;
    let input = told(&begin, name, kept, settings, watch)?;
    let mut whole: Stream<'_> = Box::new(io::Cursor::new(begin).chain(Broken(broken)).chain(whole));

    let mut scanner = Scanner::new(0, &input.fields, settings.scan);
    let mut held = Candidates::new(draw)?;
    let mut tally = FileTally::default();
    let read = records(Box::new(&mut whole), &input.layout, limit)
        .map_err(StreamError::Read)
        .and_then(|pieces| scan_all(pieces, &mut scanner, &mut held, &mut tally, watch))
        .and_then(|()| pass(&mut whole));
    watch.advance(0)?;
    let origin = tap.origin();
    end(read, name, origin.codec, &mut tally)?;
    held.log(input, tally, origin, settings.threads)
}

/// Return the beginning of a stream, long enough to show its layout, and the error at its end, if any.
fn beginning(stream: &mut Stream<'_>, limit: usize) -> (Vec<u8>, Option<io::Error>) {
    let mut begin = Vec::new();
    let mut wanted = BEGINNING;
    loop {
        let read = stream.take((wanted - begin.len()) as u64).read_to_end(&mut begin);
        match read {
            Err(error) => return (begin, Some(error)),
            Ok(_) if begin.len() < wanted || shows_a_record(&begin, limit) => return (begin, None),
            Ok(_) => wanted *= 2,
        }
    }
}

/// Return whether a beginning holds the first value in full, or more of it than a record may have.
fn shows_a_record(begin: &[u8], limit: usize) -> bool {
    let mut window = Window::new(begin, 0);
    let first = window.skip_mark().and_then(|()| {
        if window.peek()? == Some(b'[') {
            window.consume(1);
            window.peek()?;
        }
        window.value(limit)
    });
    begin.len() > limit || matches!(first, Ok(ValueEnd::Kept(_) | ValueEnd::Passed))
}

/// Detect the layout and the fields from a copy of the beginning.
fn told(
    begin: &[u8],
    name: &str,
    kept: &Path,
    settings: &read::ReadSettings,
    watch: &Watch,
) -> Result<Input> {
    fs::write(kept, begin).map_err(|error| Error::io("write", kept, error))?;
    let source = Source { codec: Codec::Plain, ..Source::open(kept, name)? };
    probe(source, &settings.wishes, watch)
}

/// Skip everything after the last record: a pipe is read to its end for its hash.
fn pass(stream: &mut Stream<'_>) -> std::result::Result<(), StreamError> {
    match io::copy(stream, &mut io::sink()) {
        Err(error) if !is_damage(&error) => Err(StreamError::Read(error)),
        _ => Ok(()),
    }
}

/// Stream that ends with an error, if there is one.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_enough_once_its_first_record_is_whole_or_too_long() {
        for (begin, enough) in [
            (r#"{"a": 1} "#, true),
            (r#"{"a": [1, "#, false),
            ("\u{feff} [ {}, {", true),
            (r#"[{"a": 1"#, false),
            (r#"{"a": "0123456789012345678901234567890123456789"#, true),
        ] {
            assert_eq!(shows_a_record(begin.as_bytes(), 40), enough, "{begin}");
        }
    }
}
