//! Finds out how a file holds its records, and which tool wrote them, by looking at its beginning.

use std::borrow::Cow;
use std::io::{self, Read};

use crate::error::{Error, Result};
use crate::field::{Wanted, scan, skip_space, unescape};
use crate::format::{Fields, Format, Overrides, by_keys};
use crate::source::{Source, is_damage};
use crate::split::{Extent, Lines, Piece, Window};
use crate::trusted;

/// How many lines are looked at for one that is a record.
const LINES_PROBED: usize = 100;

/// The longest key of a document that is looked at, in bytes.
const KEY_MAX: usize = 1 << 20;

/// How a file holds its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One a line.
    Lines,
    /// As the elements of one array.
    Array,
    /// As the elements of the array under this key of one object.
    Member(String),
    /// One after the other, each over as many lines as it likes.
    Values,
}

impl Layout {
    /// The name that manifests use.
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

/// One file with all that is needed to read its records.
#[derive(Clone, Debug)]
pub struct Input {
    /// The file.
    pub source: Source,
    /// How it holds records.
    pub layout: Layout,
    /// Which tool wrote it.
    pub format: &'static Format,
    /// Where its records keep things.
    pub fields: Fields,
}

/// What the caller already knows.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// The format, where it is not to be found by looking.
    pub format: Option<&'static Format>,
    /// Fields to take from elsewhere than the format says.
    pub overrides: Overrides,
    /// The longest record that is looked at, in bytes.
    pub max_line_bytes: usize,
}

/// Looks at one file.
///
/// # Errors
/// [`Error::Io`] if it cannot be read, [`Error::Layout`] if it is one JSON document that holds no records, or
/// several arrays that could.
pub fn probe(source: Source, wishes: &Wishes) -> Result<Input> {
    let (layout, keys) = match look(&source, wishes) {
        Err(Error::Io { source: error, .. }) if is_damage(&error) => (Layout::Lines, Vec::new()),
        looked => looked?,
    };
    let format = wishes.format.unwrap_or_else(|| by_keys(&keys));
    Ok(Input { fields: Fields::new(format, &wishes.overrides)?, source, layout, format })
}

fn look(source: &Source, wishes: &Wishes) -> Result<(Layout, Vec<String>)> {
    let io = |error| Error::io("read", &source.path, error);
    let mut window = Window::new(source.reader()?, 0);
    window.skip_mark().map_err(io)?;
    match window.peek().map_err(io)? {
        Some(b'[') => {
            window.consume(1);
            Ok((Layout::Array, first_keys(&mut window, wishes.max_line_bytes).map_err(io)?))
        }
        Some(b'{') => object(source, window, wishes),
        _ => Ok((Layout::Lines, line_keys(source, wishes.max_line_bytes)?)),
    }
}

/// A file that begins with an object: lines of records, or one document.
fn object(
    source: &Source,
    mut window: Window<Box<dyn Read + Send>>,
    wishes: &Wishes,
) -> Result<(Layout, Vec<String>)> {
    let io = |error| Error::io("read", &source.path, error);
    let Extent::Kept(length) = window.value(wishes.max_line_bytes).map_err(io)? else {
        return document(source, wishes, false);
    };
    let text = &window.bytes()[..length];
    let one_line = !text.contains(&b'\n');
    let keys = keys_of(text);
    let record =
        |keys: &[String]| Fields::new(by_keys(keys), &wishes.overrides).map(|fields| fields.fit(keys));
    if keys.is_none() || (one_line && record(keys.as_deref().unwrap_or_default())?) {
        return Ok((Layout::Lines, line_keys(source, wishes.max_line_bytes)?));
    }
    window.consume(length);
    match (window.peek().map_err(io)?, one_line) {
        (None, one_line) => document(source, wishes, one_line),
        (Some(_), true) => Ok((Layout::Lines, line_keys(source, wishes.max_line_bytes)?)),
        (Some(_), false) => Ok((Layout::Values, keys.unwrap_or_default())),
    }
}

/// One object that fills the file: a record itself, or the holder of an array of records. One that is neither is an
/// error, unless it is on one line: a file of lines may have just one, and it may be a poor record.
fn document(source: &Source, wishes: &Wishes, one_line: bool) -> Result<(Layout, Vec<String>)> {
    let walked =
        walk(source, wishes.max_line_bytes).map_err(|error| Error::io("read", &source.path, error))?;
    let Some(members) = walked else {
        return Ok((Layout::Lines, line_keys(source, wishes.max_line_bytes)?));
    };
    let fits = |keys: &[String]| Ok::<_, Error>(Fields::new(by_keys(keys), &wishes.overrides)?.fit(keys));
    let keys: Vec<String> = members.iter().map(|(key, _)| key.clone()).collect();
    if fits(&keys)? {
        return Ok((Layout::Values, keys));
    }
    let mut holders = Vec::new();
    for (key, inner) in members {
        if fits(&inner)? {
            holders.push((key, inner));
        }
    }
    let problem = match (holders.pop(), holders.len()) {
        (Some((key, inner)), 0) => return Ok((Layout::Member(key), inner)),
        (Some((key, _)), _) => {
            let others: Vec<_> = holders.into_iter().map(|(key, _)| key).collect();
            format!("it is one JSON object with several arrays of records: {}, {key}", others.join(", "))
        }
        (None, _) if one_line => return Ok((Layout::Lines, keys)),
        (None, _) => {
            "it is one JSON object that neither is a record nor holds an array of records".to_owned()
        }
    };
    Err(Error::Layout { path: source.path.clone(), problem })
}

/// A key, and the keys of the first element where its value is an array.
type Inside = (String, Vec<String>);

/// Each key of the object that fills the file, with the keys of its first element where its value is an array;
/// `None` where the file is no such object.
fn walk(source: &Source, limit: usize) -> io::Result<Option<Vec<Inside>>> {
    let mut window = enter(source)?;
    let mut members = Vec::new();
    while let Some(key) = member(&mut window)? {
        let inner = match window.peek()? {
            Some(b'[') => array_keys(&mut window, limit)?,
            _ => pass(&mut window)?.then(Vec::new),
        };
        let Some(inner) = inner else { return Ok(None) };
        members.push((key, inner));
    }
    let closed = window.peek()? == Some(b'}');
    window.consume(usize::from(closed));
    Ok((closed && window.peek()?.is_none()).then_some(members))
}

/// Opens a document and passes over its `{`.
fn enter(source: &Source) -> io::Result<Window<Box<dyn Read + Send>>> {
    let mut window = Window::new(source.stream()?, 0);
    window.skip_mark()?;
    window.peek()?;
    window.consume(1);
    Ok(window)
}

/// The next key of an object, with its colon passed; `None` where there is none.
fn member<R: Read>(window: &mut Window<R>) -> io::Result<Option<String>> {
    if window.peek()? == Some(b',') {
        window.consume(1);
    }
    if window.peek()? != Some(b'"') {
        return Ok(None);
    }
    let Extent::Kept(length) = window.value(KEY_MAX)? else { return Ok(None) };
    let key = unescape(&window.bytes()[..length]).map(Cow::into_owned);
    window.consume(length);
    if window.peek()? != Some(b':') {
        return Ok(None);
    }
    window.consume(1);
    window.peek()?;
    Ok(key)
}

/// Passes over one value; whether it was whole.
fn pass<R: Read>(window: &mut Window<R>) -> io::Result<bool> {
    match window.value(0)? {
        Extent::Passed => Ok(true),
        Extent::Kept(length) => {
            window.consume(length);
            Ok(length > 0)
        }
        Extent::Torn(_) => Ok(false),
    }
}

/// Passes over an array; the keys of its first element if that is an object.
fn array_keys<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<Option<Vec<String>>> {
    window.consume(1);
    let keys = first_keys(window, limit)?;
    loop {
        match window.peek()? {
            None => return Ok(None),
            Some(b',') => window.consume(1),
            Some(b']') => break,
            Some(_) if !pass(window)? => return Ok(None),
            Some(_) => {}
        }
    }
    window.consume(1);
    Ok(Some(keys))
}

/// The keys of the object that comes next, which stays where it is.
fn first_keys<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<Vec<String>> {
    if window.peek()? != Some(b'{') {
        return Ok(Vec::new());
    }
    match window.value(limit)? {
        Extent::Kept(length) => Ok(keys_of(&window.bytes()[..length]).unwrap_or_default()),
        Extent::Torn(_) | Extent::Passed => Ok(Vec::new()),
    }
}

/// The keys of the first line that is a record.
fn line_keys(source: &Source, limit: usize) -> Result<Vec<String>> {
    let io = |error| Error::io("read", &source.path, error);
    let mut lines = Lines::new(source.reader()?, 0, u64::MAX, limit);
    lines.skip_mark().map_err(io)?;
    for _ in 0..LINES_PROBED {
        match lines.next().map_err(io)? {
            None => break,
            Some(Piece::TooLong { .. } | Piece::Cut { .. }) => {}
            Some(Piece::Text { bytes, .. }) => {
                if let Some(keys) = keys_of(&bytes[skip_space(bytes, 0)..]) {
                    return Ok(keys);
                }
            }
        }
    }
    Ok(Vec::new())
}

/// The top-level keys of an object; `None` where the text is none.
fn keys_of(text: &[u8]) -> Option<Vec<String>> {
    let end = scan(text, &Wanted::default(), &mut []).ok()?.end;
    let record = trusted::parse(&text[..end]).ok()?;
    Some(record.as_object()?.keys().cloned().collect())
}

/// A reader that stands before the first record of a document.
///
/// # Errors
/// The reader's.
pub(crate) fn records(input: &Input) -> io::Result<Window<Box<dyn Read + Send>>> {
    let Layout::Member(wanted) = &input.layout else {
        let mut window = Window::new(input.source.stream()?, 0);
        window.skip_mark()?;
        window.peek()?;
        window.consume(usize::from(input.layout == Layout::Array));
        return Ok(window);
    };
    let mut window = enter(&input.source)?;
    while let Some(key) = member(&mut window)? {
        if key == *wanted {
            window.consume(1);
            return Ok(window);
        }
        pass(&mut window)?;
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("the array under {wanted:?} is gone")))
}
