//! Private keys with one JSON string per line.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::{Body, End, FEWEST, LineFrame, begin, parts};
use crate::secrets::secret::Secret;

/// Maximum number of other strings between two lines of a key.
const MOST_BETWEEN: usize = 4;

static MENTIONS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [Finder::new(b"PRIVATE KEY"), Finder::new(b"Private-Lines:")]);

/// Return whether a text mentions a private key.
pub(in crate::secrets) fn is_mentioned(text: &str) -> bool {
    MENTIONS.iter().any(|word| word.find(text.as_bytes()).is_some())
}

/// Key before its end mark.
struct Open<'a> {
    frame: LineFrame<'a>,
    last: End,
    body: Body,
    between: usize,
}

/// Reader of keys in the strings of a JSON text, which are given in order.
#[derive(Default)]
pub(in crate::secrets) struct QuotedKeyReader<'a> {
    open: Option<Open<'a>>,
}

impl<'a> QuotedKeyReader<'a> {
    /// Read the string between two positions of the text.
    pub(in crate::secrets) fn read(
        &mut self,
        text: &'a str,
        from: usize,
        to: usize,
        found: &mut Vec<Secret>,
    ) {
        let content = &text[..to];
        let marks = ["-----BEGIN", "---- BEGIN", "Private-Lines:"];
        if let Some(at) = marks.iter().find_map(|mark| content[from..].find(mark)) {
            self.close(text, found);
            self.open = Self::begun(content, from, from + at);
            return;
        }
        let Some(open) = &mut self.open else { return };
        let lead = open.frame.lead_of(&content[from..]).unwrap_or(0);
        let body = Body::read(content, from + lead, &open.frame, open.last);
        if body.end.is_some() {
            open.body.runs.extend(body.runs);
            open.body.end = body.end;
            self.close(text, found);
        } else if body.at == to && body.size() > 0 {
            open.body.runs.extend(body.runs);
            open.between = 0;
        } else {
            open.between += 1;
            if open.between > MOST_BETWEEN {
                self.close(text, found);
            }
        }
    }

    /// Begin a key with its begin mark in a string, unless it ends there too.
    fn begun(content: &'a str, from: usize, at: usize) -> Option<Open<'a>> {
        let (length, last) = begin(content, at)?;
        let around = LineFrame::around(&content[from..], at - from, at - from + length);
        let body = Body::read(content, at + length, &around, last);
        let unfinished = body.end.is_none() && body.at == content.len();
        unfinished.then_some(Open { frame: around, last, body, between: 0 })
    }

    /// End the open key, and add it if it is a key.
    pub(in crate::secrets) fn close(&mut self, text: &str, found: &mut Vec<Secret>) {
        let Some(Open { mut body, .. }) = self.open.take() else { return };
        if body.end.is_none() {
            body.trim();
        }
        // Strings between the lines may be words: of short ones only padded ones are lines.
        body.runs.retain(|&(from, to)| to - from >= FEWEST || text[from..to].ends_with('='));
        if body.end.is_some() && body.size() >= FEWEST || body.is_key(text) {
            parts(&body.runs, found);
        }
    }
}
