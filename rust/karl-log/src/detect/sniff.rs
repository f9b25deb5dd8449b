//! Detection of a file's format from the keys of its first records.

use std::io::{self, Read};
use std::ops::Range;

use serde_json::Value;

use crate::cancel::Watch;
use crate::error::Result;
use crate::format::{FORMATS, claimed_by};
use crate::framing::{Elements, Piece, Until, ValueEnd, Window};
use crate::input::source::Source;
use crate::json::project::{Path, PathTree, Scan, scan, skip_space, skip_string, skip_value};
use crate::json::reference_parser;
use crate::json::unescape::unescape;

/// Maximum number of records examined to detect the format.
const RECORDS_PROBED: usize = 100;

/// Return the keys of the first of the next elements that matches a format's signature, or else of the first.
pub(super) fn element_keys<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<Vec<String>> {
    let mut telling = FormatProbe::new();
    for _ in 0..RECORDS_PROBED {
        while window.peek()? == Some(b',') {
            window.consume(1);
        }
        if window.peek()? != Some(b'{') {
            break;
        }
        let ValueEnd::Kept(length) = window.value(limit)? else { break };
        let done = telling.look(&window.bytes()[..length]);
        window.consume(length);
        if done {
            break;
        }
    }
    Ok(telling.keys)
}

/// Return the keys of the first value of a file that matches a format's signature, or else of the first, in
/// any arrays and lines.
pub(super) fn value_keys(source: &Source, limit: usize, watch: &Watch) -> Result<Vec<String>> {
    let io = |error| source.failed("read", error);
    let window = Window::new(source.undamaged(watch).map_err(io)?, 0);
    let mut values = Elements::new(window, limit, Until::Stream, 0);
    let mut telling = FormatProbe::new();
    for _ in 0..RECORDS_PROBED {
        match values.next().map_err(io)? {
            None => break,
            Some(Piece::Text { bytes, .. }) if telling.look(bytes) => break,
            Some(_) => {}
        }
    }
    Ok(telling.keys)
}

/// Return the path (as in jq) of an object with records as values: the object itself, or the value of one
/// of its keys. A single value proves nothing; of several, each has to be an object that fits.
pub(super) fn by_name(object: &[u8], fits: &dyn Fn(&[String]) -> bool) -> Option<String> {
    if holds_by_name(object, fits) {
        return Some(".".to_owned());
    }
    members(object)
        .find(|(_, value)| holds_by_name(value, fits))
        .map(|(key, _)| format!(".[{}]", Value::from(key)))
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
        let paths: Vec<_> = signatures.iter().filter_map(|key| Path::parse(key).ok()).collect();
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
