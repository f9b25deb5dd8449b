//! Walk through a document that is one object, keeping only its keys.

use std::borrow::Cow;
use std::io::{self, Read};

use super::sniff::element_keys;
use crate::cancel::Watch;
use crate::framing::{ValueEnd, Window};
use crate::input::source::{Source, Stream};
use crate::json::unescape::unescape;

/// Maximum length of a document's key in bytes.
const KEY_MAX: usize = 1 << 20;

/// Maximum total bytes of keys: an object with more is not a document, but one long line.
const KEYS_MAX: usize = 1 << 26;

/// Keys of the object that fills a file, each with the keys of an element that identifies the format, if its
/// value is an array.
pub(super) struct DocumentKeys {
    pub(super) members: Vec<(String, Vec<String>)>,
    /// True if the object is complete.
    pub(super) whole: bool,
}

/// Walk through the object that fills the file; `None` if the file is not such an object.
pub(super) fn walk(source: &Source, limit: usize, watch: &Watch) -> io::Result<Option<DocumentKeys>> {
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
        } else if pass(&mut window)? {
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
pub(super) fn enter(stream: Stream<'_>) -> io::Result<Window<Stream<'_>>> {
    let mut window = Window::new(stream, 0);
    window.skip_mark()?;
    window.peek()?;
    window.consume(1);
    Ok(window)
}

/// Return the next key of an object, with its colon skipped; `None` if there is none.
pub(super) fn member<R: Read>(window: &mut Window<R>) -> io::Result<Option<String>> {
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
pub(super) fn pass<R: Read>(window: &mut Window<R>) -> io::Result<bool> {
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
            Some(_) if !pass(window)? => return Ok((keys, false)),
            Some(_) => {}
        }
    }
    window.consume(1);
    Ok((keys, true))
}
