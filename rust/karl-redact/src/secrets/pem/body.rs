//! Lines of a private key between its marks, in any encoding and with a tool's text around each line.

use super::frame::LineFrame;
use super::marks::{End, window};
use crate::secrets::secret::floor;

/// Minimum characters in a line, and number of such lines, of a key without end mark, unless one is much
/// longer.
pub(super) const LINE: usize = 40;

/// Maximum length of a key.
const LONGEST: usize = 1 << 16;

/// Text after the begin mark.
pub(super) struct Body {
    /// Lines of base64.
    pub(super) runs: Vec<(usize, usize)>,
    /// True if there are quotes between them.
    pub(super) quoted: bool,
    /// End of the end mark, if there is one.
    pub(super) end: Option<usize>,
    /// Position up to which it was read.
    pub(super) at: usize,
}

impl Body {
    /// Read the lines from a position on, up to the end mark or to a line that is not part of a key.
    pub(super) fn read(text: &str, from: usize, frame: &LineFrame<'_>, last: End) -> Self {
        let mut body = Self { runs: Vec::new(), quoted: false, end: None, at: from };
        let mut quotes = body.skip_tail(text, frame);
        while body.at < text.len() && body.at - from < LONGEST {
            let rest = &text[body.at..];
            if last.begins(rest) {
                body.end = last.find(window(text, body.at)).map(|end| body.at + end);
                body.quoted |= quotes;
                return body;
            }
            if let Some(length) = header(rest) {
                body.at += length;
                continue;
            }
            let base64 = run(rest);
            let decorated = between(rest);
            // If ambiguous, a number or a sign at the start of a line is not base64.
            if decorated > 0 && (base64 <= decorated || base64 < 8) {
                quotes |= rest[..decorated].contains(['"', '\'', ',']);
                let ends = rest.starts_with(['\n', '\\']);
                body.at += decorated;
                quotes |= ends && body.skip_lead(text, frame);
            } else if base64 > 0 {
                body.quoted |= quotes && !body.runs.is_empty();
                body.runs.push((body.at, body.at + base64));
                body.at += base64;
                quotes = body.skip_tail(text, frame);
            } else {
                break;
            }
        }
        body
    }

    /// Skip the text before each line; return whether it has quotes.
    fn skip_lead(&mut self, text: &str, frame: &LineFrame<'_>) -> bool {
        let length = frame.lead_of(&text[self.at..]).unwrap_or(0);
        self.at += length;
        text[self.at - length..self.at].contains('"')
    }

    /// Skip the text after each line; return whether it has quotes.
    fn skip_tail(&mut self, text: &str, frame: &LineFrame<'_>) -> bool {
        let length = frame.tail_of(&text[self.at..]).unwrap_or(0);
        self.at += length;
        text[self.at - length..self.at].contains('"')
    }

    /// Return the number of bytes of base64.
    pub(super) fn size(&self) -> usize {
        self.runs.iter().map(|run| run.1 - run.0).sum()
    }

    /// Remove the words after a key without end mark that only look like base64.
    pub(super) fn trim(&mut self) {
        let long = self.runs.iter().rposition(|run| run.1 - run.0 >= LINE);
        let last = long.map_or(0, |at| at + 1);
        // The last line of a key is shorter than the others, and ends in padding or is not a word.
        let keep = self.runs.get(last).is_some_and(|run| run.1 - run.0 >= 16);
        self.runs.truncate(last + usize::from(keep));
    }

    /// Return whether lines without an end mark are those of a key.
    pub(super) fn is_key(&self, text: &str) -> bool {
        let long = |least: usize| self.runs.iter().filter(|run| run.1 - run.0 >= least).count();
        let digits = self.runs.iter().any(|run| text[run.0..run.1].bytes().any(|byte| byte.is_ascii_digit()));
        digits && (long(LINE) >= 2 || long(100) >= 1)
    }
}

/// Return the number of leading bytes of base64; `/`, `+` and `=` in any encoding.
pub(super) fn run(text: &str) -> usize {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let coded = ["%2B", "%2F", "%3D", "%2b", "%2f", "%3d", "\\/", "\\u002b", "\\u003d", "\\u002f"];
        at += match rest[0] {
            byte if byte.is_ascii_alphanumeric() || b"+/=".contains(&byte) => 1,
            b'%' | b'\\' => match coded.iter().find(|code| rest.starts_with(code.as_bytes())) {
                Some(code) => code.len(),
                None => break,
            },
            _ => break,
        };
    }
    at
}

/// Return the number of leading bytes between lines: line ends in any encoding, diff marks, numbers, quotes
/// and colours.
fn between(text: &str) -> usize {
    let slashes = text.bytes().take_while(|&byte| byte == b'\\').count();
    let escaped = &text[slashes..];
    if slashes > 0 {
        if escaped.starts_with(['n', 'r', 't']) {
            return slashes + 1;
        }
        if let Some(code) =
            ["u000a", "u000d", "u000A", "u000D", "u0009"].iter().find(|code| escaped.starts_with(**code))
        {
            return slashes + code.len();
        }
        return slashes + usize::from(escaped.starts_with(['"', '\'', '\n']));
    }
    if let Some(code) = [
        "%0A",
        "%0D",
        "%0a",
        "%0d",
        "%20",
        "%250A",
        "%250D",
        "%2520",
        "&#10;",
        "&#13;",
        "&#xA;",
        "&#xa;",
        "&#xD;",
        "\u{1b}[0m",
        "\u{1b}[32m",
        "\u{1b}[31m",
        "\u{1b}[m",
    ]
    .iter()
    .find(|code| text.starts_with(**code))
    {
        return code.len();
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=6).contains(&digits) {
        let mark = text[digits..].trim_start_matches(' ');
        if let Some(letter) = mark.chars().next().filter(|letter| "→:|\t)".contains(*letter)) {
            return text.len() - mark.len() + letter.len_utf8();
        }
    }
    let plain = |letter: char| letter.is_whitespace() || "+-|>\"',#*`→│".contains(letter);
    text.chars().next().filter(|&letter| plain(letter)).map_or(0, char::len_utf8)
}

/// Return the length of a header line of a key: `Proc-Type: 4,ENCRYPTED`, `Version: ...`.
fn header(text: &str) -> Option<usize> {
    const NAMES: [&str; 7] =
        ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:", "Charset:", "MessageID:"];
    NAMES.iter().find(|name| text.starts_with(**name))?;
    let ends = |letter: char| letter == '\n' || letter == '\r' || letter == '\\' || letter == '"';
    let near = &text[..floor(text, 256.min(text.len()))];
    near.find(ends)
}
