//! Detection of a file's layout and format from its beginning: by its brackets, and by the keys of its first records.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::format::{FORMATS, Fields, Format, Overrides, Sidecar, by_keys, claimed_by};
use crate::framing::{Elements, JsonLines, Lines, Piece, Pieces, Until, ValueEnd, Window, holds_records};
use crate::input::source::{Source, Stream};
use crate::json::project::{self, PathTree, Scan, scan, skip_space, skip_string, skip_value};
use crate::json::reference_parser;
use crate::json::unescape::unescape;

/// Layout of the records in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileLayout {
    /// One record per line.
    Lines,
    /// Elements of one array.
    Array,
    /// Elements of the array under this key of one object.
    Member(String),
    /// Values of one object, or of the object under this key of it, each under its name.
    Named(Option<String>),
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
            Self::Named(None) => "object of records".to_owned(),
            Self::Named(Some(key)) => format!("object of records under {key:?}"),
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
/// values of several objects, [`Error::Unread`] if its format is not supported.
pub fn probe(source: Source, wishes: &Wishes, watch: &Watch) -> Result<Input> {
    source.readable(watch)?;
    let (layout, keys) = detect_layout(&source, wishes, watch)?;
    let format = wishes.format.unwrap_or_else(|| by_keys(&keys));
    let needed = format.sidecar.filter(|_| wishes.overrides.group.is_none());
    let beside = needed.map(|sidecar| SidecarNumber::read(&source, sidecar));
    let number = beside.as_ref().and_then(|beside| beside.number.as_ref().ok().copied());
    let fields = Fields::new(format, &wishes.overrides, number)?.in_file(&source.name);
    let fields = fields.with_names(matches!(layout, FileLayout::Named(_)));
    Ok(Input { source, layout, in_one: false, format, fields, beside, keys })
}

fn detect_layout(source: &Source, wishes: &Wishes, watch: &Watch) -> Result<(FileLayout, Vec<String>)> {
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
    let fits = |keys: &[String]| record(keys).unwrap_or(false);
    let named = if fits(keys.as_deref().unwrap_or_default()) { None } else { find_named(text, &fits) };
    window.consume(length);
    if let Some(layout) = named {
        if window.peek().map_err(io)?.is_some() {
            let FileLayout::Named(Some(key)) = layout else {
                return Err(Error::ByName { path: PathBuf::from(&source.name), holder: ".".to_owned() });
            };
            let holder = format!(".[{}]", Value::from(key));
            return Err(Error::ByName { path: PathBuf::from(&source.name), holder });
        }
        let keys = named_keys(source, &layout, wishes.max_line_bytes, watch, &fits)?;
        return Ok((layout, keys.unwrap_or_default()));
    }
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
    let walked =
        read_document(source, wishes.max_line_bytes, watch).map_err(|error| source.failed("read", error))?;
    let lines = || Ok((FileLayout::Lines, value_keys(source, wishes.max_line_bytes, watch)?));
    let Some(DocumentKeys { members, whole }) = walked else { return lines() };
    let fits =
        |keys: &[String]| Ok::<_, Error>(Fields::new(by_keys(keys), &wishes.overrides, None)?.fit(keys));
    let named = |layout: &FileLayout| {
        let fits = |keys: &[String]| fits(keys).unwrap_or(false);
        named_keys(source, layout, wishes.max_line_bytes, watch, &fits)
    };
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
        (None, _) => {
            let layout = FileLayout::Named(None);
            return match named(&layout)? {
                Some(inner) => Ok((layout, inner)),
                None if whole => Err(Error::Document { path: PathBuf::from(&source.name), keys }),
                None => lines(),
            };
        }
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
        FileLayout::Named(_) => (Until::Brace, 1),
        FileLayout::Values => (Until::Stream, 0),
    };
    Ok(Pieces::Elements(Elements::new(before_first_record(stream, layout)?, limit, until, open)))
}

/// Return a window positioned before the first record of a document.
fn before_first_record<'w>(stream: Stream<'w>, layout: &FileLayout) -> io::Result<Window<Stream<'w>>> {
    let (FileLayout::Member(wanted) | FileLayout::Named(Some(wanted))) = layout else {
        let mut window = Window::new(stream, 0);
        window.skip_mark()?;
        window.peek()?;
        window.consume(usize::from(matches!(layout, FileLayout::Array | FileLayout::Named(None))));
        return Ok(window);
    };
    let mut window = enter(stream)?;
    while let Some(key) = member(&mut window)? {
        if key == *wanted {
            window.consume(1);
            return Ok(window);
        }
        skip(&mut window)?;
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("the records under {wanted:?} are gone")))
}

/// Maximum number of records examined to detect the format.
const RECORDS_PROBED: usize = 100;

/// Return the keys of the first of the next elements that matches a format's signature, or else of the first.
fn element_keys<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<Vec<String>> {
    let mut probe = FormatProbe::new();
    for _ in 0..RECORDS_PROBED {
        while window.peek()? == Some(b',') {
            window.consume(1);
        }
        if window.peek()? != Some(b'{') {
            break;
        }
        let ValueEnd::Kept(length) = window.value(limit)? else { break };
        let done = probe.look(&window.bytes()[..length]);
        window.consume(length);
        if done {
            break;
        }
    }
    Ok(probe.keys)
}

/// Return the keys of the first value of a file that matches a format's signature, or else of the first, in
/// any arrays and lines.
fn value_keys(source: &Source, limit: usize, watch: &Watch) -> Result<Vec<String>> {
    let io = |error| source.failed("read", error);
    let window = Window::new(source.undamaged(watch).map_err(io)?, 0);
    let mut values = Elements::new(window, limit, Until::Stream, 0);
    let mut probe = FormatProbe::new();
    for _ in 0..RECORDS_PROBED {
        match values.next().map_err(io)? {
            None => break,
            Some(Piece::Text { bytes, .. }) if probe.look(bytes) => break,
            Some(_) => {}
        }
    }
    Ok(probe.keys)
}

/// Return the layout of an object that holds records by name, itself or under one of its keys; `None` of any other. A
/// single value proves nothing; of several, each has to be an object that fits.
fn find_named(object: &[u8], fits: &dyn Fn(&[String]) -> bool) -> Option<FileLayout> {
    if holds_by_name(object, fits) {
        return Some(FileLayout::Named(None));
    }
    let holder = members(object).find(|(_, value)| holds_by_name(value, fits));
    holder.map(|(key, _)| FileLayout::Named(Some(key)))
}

/// Return the keys of the first record of an object that matches a format's signature, or else of the first; `None` if
/// not all of the first values, and at least two, are objects that fit.
fn named_keys(
    source: &Source,
    layout: &FileLayout,
    limit: usize,
    watch: &Watch,
    fits: &dyn Fn(&[String]) -> bool,
) -> Result<Option<Vec<String>>> {
    let io = |error| source.failed("read", error);
    let stream = source.undamaged(watch).map_err(io)?;
    let window = before_first_record(stream, layout).map_err(io)?;
    let mut members = Elements::new(window, limit, Until::Brace, 1);
    let (mut probe, mut count) = (FormatProbe::new(), 0);
    while count < RECORDS_PROBED {
        let Some(Piece::Text { bytes, ended: true, .. }) = members.next().map_err(io)? else { break };
        let value = member_value(bytes);
        if !keys_of(value).is_some_and(|keys| fits(&keys)) {
            return Ok(None);
        }
        probe.look(value);
        count += 1;
    }
    Ok((count > 1).then_some(probe.keys))
}

/// Return the value of a member of an object; empty if it has none.
fn member_value(member: &[u8]) -> &[u8] {
    let end = skip_string(member, 0).unwrap_or(member.len());
    let colon = skip_space(member, end);
    member.get(skip_space(member, colon + 1)..).unwrap_or_default()
}

fn holds_by_name(object: &[u8], fits: &dyn Fn(&[String]) -> bool) -> bool {
    let mut count = 0;
    for (_, value) in members(object).take(RECORDS_PROBED) {
        if value.first() != Some(&b'{') || !keys_of(value).is_some_and(|keys| fits(&keys)) {
            return false;
        }
        count += 1;
    }
    count > 1
}

/// Return the members of an object, as far as it is valid.
fn members(object: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    let mut at = if object.first() == Some(&b'{') { 1 } else { object.len() };
    std::iter::from_fn(move || {
        let start = skip_space(object, at);
        let start = skip_space(object, start + usize::from(object.get(start) == Some(&b',')));
        let end = skip_string(object, start).ok().filter(|_| object.get(start) == Some(&b'"'))?;
        let key = unescape(&object[start..end])?.into_owned();
        let colon = skip_space(object, end);
        let from = skip_space(object, colon + usize::from(object.get(colon) == Some(&b':')));
        at = skip_value(object, from).ok()?;
        Some((key, &object[from..at]))
    })
}

/// Record that identifies a file's format.
struct FormatProbe {
    keys: Vec<String>,
    /// Keys of all signatures, the scan for them, and the slots of the scan.
    signatures: Vec<&'static str>,
    scan: Scan,
    found: Vec<Option<Range<usize>>>,
}

impl FormatProbe {
    fn new() -> Self {
        let lists = FORMATS.iter().flat_map(|format| format.signatures);
        let signatures: Vec<&str> = lists.flat_map(|keys| *keys).copied().collect();
        let paths: Vec<_> = signatures.iter().filter_map(|key| project::Path::parse(key).ok()).collect();
        let found = vec![None; paths.len()];
        Self { keys: Vec::new(), signatures, scan: Scan::new(PathTree::new(&paths)), found }
    }

    /// Examine one more record; return whether to stop. One odd record at the front must not hide the format
    /// of the others, so the first record that matches a signature takes precedence over the first one.
    fn look(&mut self, text: &[u8]) -> bool {
        let claimed = self.is_claimed(text);
        if claimed || self.keys.is_empty() {
            self.keys = keys_of(text).unwrap_or_default();
        }
        claimed && !self.keys.is_empty()
    }

    /// Return whether an object matches some format's signature.
    fn is_claimed(&mut self, text: &[u8]) -> bool {
        let scanned = self.scan.object(text, &mut self.found);
        let pairs = self.signatures.iter().zip(&self.found);
        let has = |key: &str| pairs.clone().any(|(known, value)| *known == key && value.is_some());
        scanned.is_ok() && claimed_by(&has).is_some()
    }
}

/// Return the top-level keys of an object; `None` if the text is not one.
#[must_use]
pub fn keys_of(text: &[u8]) -> Option<Vec<String>> {
    let end = scan(text, &PathTree::default(), &mut []).ok()?.end;
    reference_parser::keys(&text[..end]).ok()
}

/// Maximum length of a document's key in bytes.
const KEY_MAX: usize = 1 << 20;

/// Maximum total bytes of keys: an object with more is not a document, but one long line.
const KEYS_MAX: usize = 1 << 26;

/// Keys of the object that fills a file, each with the keys of an element that identifies the format, if its
/// value is an array.
struct DocumentKeys {
    members: Vec<(String, Vec<String>)>,
    /// True if the object is complete.
    whole: bool,
}

/// Walk through the object that fills the file; `None` if the file is not such an object.
fn read_document(source: &Source, limit: usize, watch: &Watch) -> io::Result<Option<DocumentKeys>> {
    let mut window = enter(source.undamaged(watch)?)?;
    let mut members = Vec::new();
    let mut held = 0;
    while let Some(key) = member(&mut window)? {
        held += weight(&key);
        if held > KEYS_MAX {
            return Ok(None);
        }
        if window.peek()? == Some(b'[') {
            let (inner, whole) = array_keys(&mut window, limit)?;
            held += inner.iter().map(|key| weight(key)).sum::<usize>();
            members.push((key, inner));
            if !whole {
                return Ok(Some(DocumentKeys { members, whole }));
            }
        } else if skip(&mut window)? {
            members.push((key, Vec::new()));
        } else {
            break;
        }
    }
    let closed = window.peek()? == Some(b'}');
    window.consume(usize::from(closed));
    Ok(window.peek()?.is_none().then_some(DocumentKeys { members, whole: closed }))
}

/// Return the approximate memory of a key.
fn weight(key: &str) -> usize {
    key.len() + 64
}

/// Skip the `{` of a document.
fn enter(stream: Stream<'_>) -> io::Result<Window<Stream<'_>>> {
    let mut window = Window::new(stream, 0);
    window.skip_mark()?;
    window.peek()?;
    window.consume(1);
    Ok(window)
}

/// Return the next key of an object, with its colon skipped; `None` if there is none.
fn member<R: Read>(window: &mut Window<R>) -> io::Result<Option<String>> {
    if window.peek()? == Some(b',') {
        window.consume(1);
    }
    if window.peek()? != Some(b'"') {
        return Ok(None);
    }
    let length = match window.value(KEY_MAX)? {
        ValueEnd::Kept(length) => length,
        ValueEnd::Torn(length) => {
            window.consume(length);
            return Ok(None);
        }
        ValueEnd::Passed => return Ok(None),
    };
    let key = unescape(&window.bytes()[..length]).map(Cow::into_owned);
    window.consume(length);
    if window.peek()? != Some(b':') {
        return Ok(None);
    }
    window.consume(1);
    window.peek()?;
    Ok(key)
}

/// Skip one value; return whether it was complete.
fn skip<R: Read>(window: &mut Window<R>) -> io::Result<bool> {
    match window.value(0)? {
        ValueEnd::Passed => Ok(true),
        ValueEnd::Kept(length) => {
            window.consume(length);
            Ok(length > 0)
        }
        ValueEnd::Torn(length) => {
            window.consume(length);
            Ok(false)
        }
    }
}

/// Skip an array; return the keys of the element that identifies the format, and whether the array was
/// complete.
fn array_keys<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<(Vec<String>, bool)> {
    window.consume(1);
    let keys = element_keys(window, limit)?;
    loop {
        match window.peek()? {
            None => return Ok((keys, false)),
            Some(b',') => window.consume(1),
            Some(b']') => break,
            Some(_) if !skip(window)? => return Ok((keys, false)),
            Some(_) => {}
        }
    }
    window.consume(1);
    Ok((keys, true))
}

/// Maximum size of such a file in bytes.
const LONGEST: u64 = 1 << 20;

/// Result of the search for such a number.
#[derive(Clone, Debug)]
pub struct SidecarNumber {
    /// Path of the file, whether it exists or not.
    pub path: PathBuf,
    /// Key of the number.
    pub key: &'static str,
    /// Number, or the reason why there is none.
    pub number: std::result::Result<u64, String>,
}

impl SidecarNumber {
    /// Look beside a log. Standard input has no such place.
    fn read(source: &Source, sidecar: Sidecar) -> Self {
        let path = Path::new(&source.name).with_file_name(sidecar.file);
        let number = if source.name == "-" {
            Err("standard input has no file beside it".to_owned())
        } else {
            read_sidecar(&path).and_then(|text| number(&text, sidecar.number))
        };
        Self { path, key: sidecar.number, number }
    }
}

/// Return the bytes of a regular file.
///
/// # Errors
/// A sentence that says why it cannot be read.
pub fn read_sidecar(path: &Path) -> std::result::Result<Vec<u8>, String> {
    // Opening a pipe would block.
    if !path.is_file() {
        return Err("there is no such file".to_owned());
    }
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text));
    match read {
        Err(error) => Err(error.to_string()),
        Ok(_) if text.len() as u64 > LONGEST => Err(format!("it is longer than {LONGEST} bytes")),
        Ok(_) => Ok(text),
    }
}

fn number(text: &[u8], key: &str) -> std::result::Result<u64, String> {
    let whole = reference_parser::parse(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let value = whole.get(key).ok_or_else(|| format!("it has no {key}"))?;
    let number = value.as_u64().filter(|&number| number > 0);
    number.ok_or_else(|| format!("{key} is not a whole number from 1 on"))
}
