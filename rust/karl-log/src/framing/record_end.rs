//! End of a record that may span several lines, in a stream that may be damaged.
//!
//! A value that ends on its own line is delimited by its brackets alone, which is fast. A value that spans
//! lines has to follow the grammar of JSON: otherwise a truncated record would swallow the lines after it.

use std::io::{self, Read};

use memchr::{memchr, memchr2, memchr3};

use super::window::{LineEnd, Skipper};
use super::{ValueEnd, Window};
use crate::json::project::{skip_space, skip_string};
use crate::json::validate::Grammar;

/// Find the end of the object or array that begins here, `column` bytes into its line. The end of a damaged
/// one is where its brackets close, or the next line on which another record seems to begin.
pub(super) fn record<R: Read>(window: &mut Window<R>, limit: usize, column: u64) -> io::Result<ValueEnd> {
    match on_line(window, limit)? {
        OnLine::Beyond => {}
        OnLine::Ends(extent) => return Ok(extent),
    }
    match grammar(window, limit, |_| false, true)? {
        Fed::End(length) if length <= limit => Ok(ValueEnd::Kept(length)),
        Fed::Wrong => find_damaged_end(window, limit, column),
        // Too long, or truncated by the end of the stream.
        _ => window.value(limit),
    }
}

/// Find the end of the member of an object that begins here with its key: that of its value, or of the key if that is
/// too long or no value follows.
pub(super) fn member<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<ValueEnd> {
    let ValueEnd::Kept(key) = key_end(window, limit)? else { return window.value(limit) };
    if key > limit {
        return Ok(window.past(key));
    }
    let mut at = key;
    let mut is_behind_colon = false;
    loop {
        at = skip_space(window.bytes(), at);
        match window.bytes().get(at).copied() {
            _ if at - key > limit => return Ok(ValueEnd::Kept(key)),
            Some(b':') if !is_behind_colon => {
                is_behind_colon = true;
                at += 1;
            }
            Some(_) if is_behind_colon => return window.value_from(at, limit),
            Some(_) => return Ok(ValueEnd::Kept(key)),
            None if !window.fill()? => return Ok(ValueEnd::Torn(window.bytes().len())),
            None => {}
        }
    }
}

/// Find the end of the key that begins here, without consuming it.
fn key_end<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<ValueEnd> {
    loop {
        if let Ok(end) = skip_string(window.bytes(), 0) {
            return Ok(ValueEnd::Kept(end));
        }
        let length = window.bytes().len();
        if length > limit || !window.fill()? {
            return Ok(ValueEnd::Torn(length));
        }
    }
}

/// Find the end of an object in a file of lines; `None` if it neither ends on its line nor continues after
/// it.
pub(super) fn object<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<Option<ValueEnd>> {
    if let OnLine::Ends(extent) = on_line(window, limit)? {
        return Ok(Some(extent).filter(|extent| !matches!(extent, ValueEnd::Torn(_))));
    }
    Ok(match grammar(window, limit, |_| false, false)? {
        Fed::End(length) if length <= limit => Some(ValueEnd::Kept(length)),
        Fed::End(_) => Some(window.value(limit)?),
        Fed::More if window.bytes().len() > limit => Some(window.value(limit)?),
        Fed::Wrong | Fed::More | Fed::Container => None,
    })
}

/// Find the end of a value that is neither an object nor an array: at the latest the end of its line.
pub(super) fn scalar<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<ValueEnd> {
    match on_line(window, limit)? {
        OnLine::Ends(extent) => Ok(extent),
        OnLine::Beyond => rest_of_line(window, limit),
    }
}

/// Find the end of the line.
pub(super) fn rest_of_line<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<ValueEnd> {
    let mut seen = 0;
    loop {
        if let Some(found) = memchr(b'\n', &window.bytes()[seen..]) {
            let length = seen + found;
            return Ok(if length > limit { window.past(length) } else { ValueEnd::Kept(length) });
        }
        seen = window.bytes().len();
        if seen > limit {
            window.pass_line()?;
            return Ok(ValueEnd::Passed);
        }
        if !window.fill()? {
            return Ok(ValueEnd::Torn(seen));
        }
    }
}

/// Return whether the array that begins here holds objects or arrays, as far as it is valid. Words in
/// brackets at the start of a line are not an array, and numbers in brackets are a value.
pub(crate) fn holds_records<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<bool> {
    let mut at = 1;
    loop {
        at = skip_space(window.bytes(), at);
        match window.bytes().get(at).copied() {
            Some(b'{' | b'[' | b']') => return Ok(true),
            Some(_) => break,
            None if !window.fill()? => return Ok(true),
            None => {}
        }
    }
    Ok(matches!(grammar(window, limit, |depth| depth == 2, true)?, Fed::Container))
}

enum OnLine {
    Ends(ValueEnd),
    /// The line ends inside the value.
    Beyond,
}

/// Search for the end of a value up to the end of its line.
fn on_line<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<OnLine> {
    let mut skipper = Skipper::of_line();
    let mut seen = 0;
    loop {
        if let Some(length) = skipper.feed(&window.bytes()[seen..]) {
            if skipper.line == LineEnd::Stopped {
                return Ok(OnLine::Beyond);
            }
            let end = seen + length;
            return Ok(OnLine::Ends(if end > limit { window.past(end) } else { ValueEnd::Kept(end) }));
        }
        seen = window.bytes().len();
        if seen > limit {
            skipper.line = LineEnd::Inside;
            return window.pass(&mut skipper).map(OnLine::Ends);
        }
        if !window.fill()? {
            let whole = skipper.ends_with_stream();
            return Ok(OnLine::Ends(if whole { ValueEnd::Kept(seen) } else { ValueEnd::Torn(seen) }));
        }
    }
}

/// Follow the grammar of the value that begins here until its end, or until `stop` is true of the depth of a
/// new container. [`Fed::More`] means the limit, or the end of the stream.
fn grammar<R: Read>(
    window: &mut Window<R>,
    limit: usize,
    stop: impl Fn(u32) -> bool,
    broken_strings: bool,
) -> io::Result<Fed> {
    let mut follower = Follower { broken_strings, ..Follower::default() };
    loop {
        match follower.feed(window.bytes(), &stop) {
            Fed::More if window.bytes().len() <= limit && window.fill()? => {}
            fed => return Ok(fed),
        }
    }
}

/// Find the end of a damaged value line by line.
fn find_damaged_end<R: Read>(window: &mut Window<R>, limit: usize, column: u64) -> io::Result<ValueEnd> {
    let mut skipper = Skipper::default();
    let mut at = 0;
    loop {
        let end = loop {
            match memchr(b'\n', &window.bytes()[at..]) {
                Some(found) => break at + found + 1,
                None if window.bytes().len() > limit || !window.fill()? => break window.bytes().len(),
                None => {}
            }
        };
        let line = &window.bytes()[at..end];
        if end > limit {
            return Ok(window.past(at.max(1)));
        }
        if line.is_empty() {
            return Ok(ValueEnd::Torn(at));
        }
        if at > 0 && begins_record(line, column) {
            return Ok(ValueEnd::Kept(at));
        }
        if let Some(length) = skipper.feed(line) {
            return Ok(ValueEnd::Kept(at + length));
        }
        at = end;
    }
}

/// Return whether another record, or the end of the array, seems to begin on a line after a damaged record:
/// at most as deep in the line as that record.
fn begins_record(line: &[u8], column: u64) -> bool {
    let indent = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    match line.get(indent) {
        Some(b'{' | b'[') => indent as u64 <= column,
        Some(b']') => (indent as u64) < column,
        _ => false,
    }
}

/// Result of feeding more bytes.
enum Fed {
    /// End of the value after so many bytes.
    End(usize),
    /// Invalid JSON.
    Wrong,
    /// Start of a container that satisfies `stop`.
    Container,
    /// Value not yet ended.
    More,
}

/// Follower of the grammar of one value. Numbers and words are not validated.
#[derive(Default)]
struct Follower {
    grammar: Grammar,
    /// Next byte to process: the start of a token.
    at: usize,
    /// Position up to which an open string was searched for its end.
    searched: usize,
    /// True if a line may end inside a string.
    broken_strings: bool,
}

impl Follower {
    /// Process all bytes so far; earlier ones come again at the front.
    fn feed(&mut self, bytes: &[u8], stop: impl Fn(u32) -> bool) -> Fed {
        while let Some(&byte) = bytes.get(self.at) {
            if matches!(byte, b'{' | b'[') && stop(self.grammar.depth() + 1) {
                return Fed::Container;
            }
            let end = match byte {
                b' ' | b'\t' | b'\n' | b'\r' => {
                    self.at += 1;
                    continue;
                }
                b'"' => match self.string(bytes) {
                    Ok(Some(end)) => end,
                    Ok(None) => return Fed::More,
                    Err(()) => return Fed::Wrong,
                },
                b'{' | b'[' | b'}' | b']' | b':' | b',' => self.at + 1,
                _ => match bytes[self.at..].iter().position(|byte| b",:{}[]\" \t\r\n".contains(byte)) {
                    Some(length) => self.at + length,
                    None => return Fed::More,
                },
            };
            if self.step(byte).is_none() {
                return Fed::Wrong;
            }
            self.at = end;
            if self.grammar.is_whole() {
                return Fed::End(end);
            }
        }
        Fed::More
    }

    fn step(&mut self, first: u8) -> Option<()> {
        match first {
            b'"' => self.grammar.string(b'a'),
            b'{' | b'[' => self.grammar.open(first == b'{'),
            b'}' | b']' => self.grammar.close(first == b'}'),
            b':' => self.grammar.colon(),
            b',' => self.grammar.comma(),
            _ => self.grammar.value(),
        }
    }

    /// Return the position after the string that begins here; an error if its line ends first and may not.
    fn string(&mut self, bytes: &[u8]) -> Result<Option<usize>, ()> {
        let mut at = self.searched.max(self.at + 1);
        while let Some(rest) = bytes.get(at..) {
            let found = if self.broken_strings {
                memchr2(b'"', b'\\', rest)
            } else {
                memchr3(b'"', b'\\', b'\n', rest)
            };
            let Some(found) = found else { break };
            at += found + 1;
            match bytes[at - 1] {
                b'"' => return Ok(Some(at)),
                b'\n' => return Err(()),
                _ if at == bytes.len() => {
                    self.searched = at - 1;
                    return Ok(None);
                }
                _ => at += 1,
            }
        }
        self.searched = bytes.len().max(at);
        Ok(None)
    }
}
