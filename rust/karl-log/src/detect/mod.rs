//! Detection of a file's layout and format from its beginning.

mod document;
pub mod sidecar;
mod sniff;

use std::io;
use std::path::PathBuf;

use document::{DocumentKeys, enter, member, pass, walk};
use sidecar::SidecarNumber;
pub use sniff::keys_of;
use sniff::{by_name, value_keys};

use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::format::{Fields, Format, Overrides, by_keys};
use crate::framing::{Elements, JsonLines, Lines, Pieces, Until, ValueEnd, Window, holds_records};
use crate::input::source::{Source, Stream};

/// Layout of the records in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileLayout {
    /// One record per line.
    Lines,
    /// Elements of one array.
    Array,
    /// Elements of the array under this key of one object.
    Member(String),
    /// Concatenated values, each over any number of lines.
    Values,
}

impl FileLayout {
    /// Return the name used in manifests.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Lines => "lines".to_owned(),
            Self::Array => "array".to_owned(),
            Self::Member(key) => format!("array under {key:?}"),
            Self::Values => "values".to_owned(),
        }
    }
}

/// One file with all settings needed to read its records.
#[derive(Clone, Debug)]
pub struct Input {
    /// File.
    pub source: Source,
    /// Layout of its records.
    pub layout: FileLayout,
    /// Format of the tool that wrote it.
    pub format: &'static Format,
    /// True if it is read as a whole: one of its records spans several lines.
    pub in_one: bool,
    /// Fields of its records.
    pub fields: Fields,
    /// Number that its format takes from a file beside it.
    pub beside: Option<SidecarNumber>,
    /// Top-level keys of the record that identified the format.
    pub keys: Vec<String>,
}

/// Settings of the caller.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Format, if it is not to be detected.
    pub format: Option<&'static Format>,
    /// Fields that override those of the format.
    pub overrides: Overrides,
    /// Maximum length of a record in bytes.
    pub max_line_bytes: usize,
}

/// Detect layout and format of one file, reading up to its damage if there is any.
///
/// # Errors
/// [`Error::Io`] if it cannot be read, [`Error::Document`] if it is one JSON document without records,
/// [`Error::Layout`] if it holds several arrays of possible records, [`Error::ByName`] if its records are the
/// values of an object, [`Error::Unread`] if its format is not supported.
pub fn probe(source: Source, wishes: &Wishes, watch: &Watch) -> Result<Input> {
    source.readable(watch)?;
    let (layout, keys) = look(&source, wishes, watch)?;
    let format = wishes.format.unwrap_or_else(|| by_keys(&keys));
    let needed = format.sidecar.filter(|_| wishes.overrides.group.is_none());
    let beside = needed.map(|sidecar| SidecarNumber::look(&source, sidecar));
    let number = beside.as_ref().and_then(|beside| beside.number.as_ref().ok().copied());
    let fields = Fields::new(format, &wishes.overrides, number)?;
    Ok(Input { source, layout, in_one: false, format, fields, beside, keys })
}

fn look(source: &Source, wishes: &Wishes, watch: &Watch) -> Result<(FileLayout, Vec<String>)> {
    let io = |error| source.failed("read", error);
    let mut window = Window::new(source.undamaged(watch).map_err(|error| source.failed("open", error))?, 0);
    window.skip_mark().map_err(io)?;
    match window.peek().map_err(io)? {
        Some(b'[') if holds_records(&mut window, wishes.max_line_bytes).map_err(io)? => {
            Ok((FileLayout::Array, value_keys(source, wishes.max_line_bytes, watch)?))
        }
        Some(b'{') => object(source, window, wishes, watch),
        _ => Ok((FileLayout::Lines, value_keys(source, wishes.max_line_bytes, watch)?)),
    }
}

/// Detect a file that begins with an object: lines of records, or one document.
fn object(
    source: &Source,
    mut window: Window<Stream<'_>>,
    wishes: &Wishes,
    watch: &Watch,
) -> Result<(FileLayout, Vec<String>)> {
    let io = |error| source.failed("read", error);
    let ValueEnd::Kept(length) = window.value(wishes.max_line_bytes).map_err(io)? else {
        return document(source, wishes, watch, false);
    };
    let text = &window.bytes()[..length];
    let one_line = !text.contains(&b'\n');
    let keys = keys_of(text);
    let record =
        |keys: &[String]| Fields::new(by_keys(keys), &wishes.overrides, None).map(|fields| fields.fit(keys));
    if keys.is_none() || (one_line && record(keys.as_deref().unwrap_or_default())?) {
        return Ok((FileLayout::Lines, value_keys(source, wishes.max_line_bytes, watch)?));
    }
    if !record(keys.as_deref().unwrap_or_default())? {
        let fits = |keys: &[String]| record(keys).unwrap_or(false);
        if let Some(holder) = by_name(text, &fits) {
            return Err(Error::ByName { path: PathBuf::from(&source.name), holder });
        }
    }
    window.consume(length);
    match (window.peek().map_err(io)?, one_line) {
        (None, one_line) => document(source, wishes, watch, one_line),
        (Some(_), true) => Ok((FileLayout::Lines, value_keys(source, wishes.max_line_bytes, watch)?)),
        (Some(_), false) => Ok((FileLayout::Values, keys.unwrap_or_default())),
    }
}

/// Detect one object that fills the file: a record itself, or the holder of an array of records. Any other is
/// an error, unless it is on one line: a file of lines may have just one, with few fields.
fn document(
    source: &Source,
    wishes: &Wishes,
    watch: &Watch,
    one_line: bool,
) -> Result<(FileLayout, Vec<String>)> {
    let walked = walk(source, wishes.max_line_bytes, watch).map_err(|error| source.failed("read", error))?;
    let lines = || Ok((FileLayout::Lines, value_keys(source, wishes.max_line_bytes, watch)?));
    let Some(DocumentKeys { members, whole }) = walked else { return lines() };
    let fits =
        |keys: &[String]| Ok::<_, Error>(Fields::new(by_keys(keys), &wishes.overrides, None)?.fit(keys));
    let keys: Vec<String> = members.iter().map(|(key, _)| key.clone()).collect();
    match (fits(&keys)?, whole) {
        (true, true) => return Ok((FileLayout::Values, keys)),
        // A first line that is truncated inside its record looks like a truncated document.
        (true, false) => return lines(),
        (false, _) => {}
    }
    let mut holders = Vec::new();
    for (key, inner) in members {
        if fits(&inner)? {
            holders.push((key, inner));
        }
    }
    let problem = match (holders.pop(), holders.len()) {
        (Some((key, inner)), 0) => return Ok((FileLayout::Member(key), inner)),
        (Some((key, _)), _) => {
            let others: Vec<_> = holders.into_iter().map(|(key, _)| key).collect();
            format!("it is one JSON object with several arrays of records: {}, {key}", others.join(", "))
        }
        (None, _) if one_line => return Ok((FileLayout::Lines, keys)),
        (None, _) if !whole => return lines(),
        (None, _) => return Err(Error::Document { path: PathBuf::from(&source.name), keys }),
    };
    Err(Error::Layout { path: PathBuf::from(&source.name), problem })
}

/// Return the records of a stream that is read from its start.
///
/// # Errors
/// Errors of the reader.
pub fn records<'w>(stream: Stream<'w>, layout: &FileLayout, limit: usize) -> io::Result<Pieces<Stream<'w>>> {
    let (until, open) = match layout {
        FileLayout::Lines => {
            let mut lines = Lines::new(stream, 0, u64::MAX, limit);
            lines.skip_mark()?;
            return Ok(Pieces::Lines(JsonLines::new(lines, false)));
        }
        FileLayout::Array => (Until::Stream, 1),
        FileLayout::Member(_) => (Until::Bracket, 1),
        FileLayout::Values => (Until::Stream, 0),
    };
    Ok(Pieces::Elements(Elements::new(first(stream, layout)?, limit, until, open)))
}

/// Return a window positioned before the first record of a document.
fn first<'w>(stream: Stream<'w>, layout: &FileLayout) -> io::Result<Window<Stream<'w>>> {
    let FileLayout::Member(wanted) = layout else {
        let mut window = Window::new(stream, 0);
        window.skip_mark()?;
        window.peek()?;
        window.consume(usize::from(*layout == FileLayout::Array));
        return Ok(window);
    };
    let mut window = enter(stream)?;
    while let Some(key) = member(&mut window)? {
        if key == *wanted {
            window.consume(1);
            return Ok(window);
        }
        pass(&mut window)?;
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("the array under {wanted:?} is gone")))
}
