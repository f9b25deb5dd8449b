//! Text of a log or a store: blocks of whole lines, pieces of a block, lines of a piece.

use std::io::Read;
use std::path::Path;

use memchr::{memchr, memrchr};

use crate::cancel::Watch;
use crate::error::{Error, Result};

/// Read whole lines, about `size` bytes at a time, or one line if that is longer.
///
/// # Errors
/// [`Error::Io`] if the stream cannot be read, [`Error::Interrupted`] on cancellation, and the error of `one`.
pub(super) fn blocks(
    mut stream: impl Read,
    size: u64,
    path: &Path,
    watch: &Watch,
    mut one: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut text = Vec::new();
    loop {
        let read = (&mut stream).take(size).read_to_end(&mut text);
        let read = read.map_err(|error| Error::io("read", path, error))?;
        // A stream ends early on cancellation.
        watch.advance(read as u64)?;
        let last = read == 0;
        let end = if last { text.len() } else { memrchr(b'\n', &text).map_or(0, |at| at + 1) };
        one(&text[..end])?;
        text.drain(..end);
        if last {
            return Ok(());
        }
    }
}

/// Split a text after line ends, into pieces of a size or more.
pub(super) fn pieces(mut text: &[u8], size: usize) -> Vec<&[u8]> {
    let mut pieces = Vec::with_capacity(text.len() / size + 1);
    while let Some(found) = text.get(size..).and_then(|rest| memchr(b'\n', rest)) {
        let (piece, rest) = text.split_at(size + found + 1);
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

/// Return the lines of a text, each with its end.
pub(super) fn lines(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = memchr(b'\n', text).map_or(text.len(), |at| at + 1);
        let (line, rest) = text.split_at(end);
        text = rest;
        (!line.is_empty()).then_some(line)
    })
}
