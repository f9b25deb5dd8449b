//! Parser of signs, quotes and spaces between a name and its value, in any encoding.

use super::secret::floor;

/// Assignment signs, longer ones before shorter ones.
#[rustfmt::skip]
const SIGNS: [&str; 28] = [
    "=>", ":=", "==", "=3D", "=", ":", "%3D%3D", "%3D", "%3d", "%3A", "%3a", "%253D", "%253d", "%253A", "%25253D",
    "%u003D", "%u003d", "\\u003d", "\\u003D", "\\u003a", "\\\\u003d", "\\x3d", "\\x3D", "\\075", "&#61;", "&equals;",
    "&#x3D;", "&#x3d;",
];

/// Position between a name and its value.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skip text between a name and its sign: `[None]`, ` for bob`.
    pub(super) fn aside(&mut self) {
        let rest = self.rest();
        let near = &rest[..floor(rest, 64.min(rest.len()))];
        let length = match near {
            _ if near.starts_with(" [") => near.find(']').map(|at| at + 1),
            _ if near.starts_with(" for ") => near[5..].find([':', ' ', '\n']).map(|at| at + 5),
            _ => None,
        };
        if let Some(length) = length.filter(|&length| near[length..].starts_with(": ")) {
            self.at += length;
        }
    }

    /// Skip spaces and terminal colours; return whether there were any.
    pub(super) fn space(&mut self) -> bool {
        let from = self.at;
        loop {
            let rest = self.rest();
            let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            let colour =
                ["\u{1b}[", "\\u001b[", "\\x1b[", "\\033["].iter().find(|begin| rest.starts_with(**begin));
            match colour {
                _ if spaces > 0 => self.at += spaces,
                _ if rest.starts_with("%20") => self.at += 3,
                Some(begin) => {
                    let number = rest
                        .bytes()
                        .skip(begin.len())
                        .take_while(|byte| !byte.is_ascii_alphabetic())
                        .take(12)
                        .count();
                    self.at = floor(self.text, self.at + begin.len() + number + 1);
                }
                None => return self.at > from,
            }
        }
    }

    /// Skip one of some texts.
    pub(super) fn skip_any(&mut self, wanted: &[&str]) {
        if let Some(one) = wanted.iter().find(|one| self.rest().starts_with(**one)) {
            self.at += one.len();
        }
    }

    /// Return an assignment: a sign, or a space between a name and a value.
    pub(super) fn sign(&mut self, quoted: bool, spaces: bool) -> Option<&'static str> {
        let rest = self.rest();
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            return Some(if sign.starts_with(['\\', '&']) || *sign == "=3D" { "=" } else { sign });
        }
        if spaces && rest.starts_with("is: ") {
            self.at += "is:".len();
            return Some(":");
        }
        if let Some(length) = paired(rest, spaces) {
            self.at += length;
            return Some(":");
        }
        match rest.as_bytes().first() {
            Some(b'(') if !quoted => Some(self.take("(")),
            Some(b',') if quoted => Some(self.take(",")),
            Some(b'>') if !quoted => Some(self.take(">")),
            _ if spaces && !quoted => Some(" "),
            _ => None,
        }
    }

    pub(super) fn take(&mut self, sign: &'static str) -> &'static str {
        self.at += sign.len();
        sign
    }

    /// Return a quote in any encoding.
    pub(super) fn quote(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let slashes = rest.bytes().take_while(|&byte| byte == b'\\').count();
        let length = match rest.as_bytes().get(slashes) {
            Some(b'"' | b'\'' | b'`') => Some(slashes + 1),
            Some(b'u') if slashes > 0 => ["u0022", "u0027"]
                .iter()
                .find(|quote| rest[slashes..].starts_with(**quote))
                .map(|quote| slashes + quote.len()),
            _ => ["%22", "%27", "%2522", "&quot;", "&#34;", "&#39;", "&#x27;", "&apos;"]
                .iter()
                .find(|quote| rest.starts_with(**quote))
                .map(|quote| quote.len()),
        }?;
        self.at += length;
        Some(&rest[..length])
    }
}

/// Return the length of a value up to its closing quote.
pub(super) fn closing(rest: &str, quote: &str) -> Option<usize> {
    let slashes = quote.bytes().take_while(|&byte| byte == b'\\').count();
    let (mark, all) = (&quote[slashes..], rest.as_bytes());
    let mut from = 0;
    loop {
        let at = from + rest.get(from..floor(rest, (from + 8192).min(rest.len())))?.find(mark)?;
        let before = all[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
        if before % (2 * (slashes + 1)) == slashes || before < slashes {
            return Some(at - before.min(slashes));
        }
        from = at + mark.len();
    }
}

/// Return the length of the rest of a pair that begins with a name: `name: DB_PASSWORD, value: `.
fn paired(rest: &str, spaces: bool) -> Option<usize> {
    let between =
        |byte: &u8| byte.is_ascii_whitespace() || b",\\\"'".contains(byte) || *byte == b'n' || *byte == b'-';
    let gap = rest.bytes().take(48).take_while(between).count();
    let behind = rest[gap..].strip_prefix("value").or_else(|| rest[gap..].strip_prefix("Value"))?;
    let sign = behind.trim_start_matches(['\\', '"', '\'', ' ']);
    let found = (gap > 0 || spaces) && sign.starts_with([':', '=']);
    found.then(|| rest.len() - sign.len() + 1)
}
