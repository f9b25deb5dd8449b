//! Detection of secrets by the name they are assigned to: `DB_PASSWORD=...`, `"apiKey": "..."`, `--token ...`, and in
//! lists, `passwords = ["...", "..."]`.
//!
//! Behind a name, [`Cursor`] passes signs, quotes and spaces in any encoding, and [`Syntax`] finds the end of a value
//! without a closing quote.

use super::is_secret::{is_key, is_placeholder, is_program, is_weak, is_weak_value};
use super::named::{LONGEST, NameKind, family, is_passworded, kind, literal, quoted};
use super::secret::{MARK, RANK, Secret, floor};

/// Maximum length of a value.
const LONGEST_VALUE: usize = 4096;

/// Find the secrets after a name that contains the word at a position; return the end of the name.
pub(super) fn secrets(text: &str, from: usize, to: usize, found: &mut Vec<Secret>) -> usize {
    let bytes = text.as_bytes();
    let (begin, end) = bounds(bytes, from, to);
    let follows = is_followed(bytes, end);
    // `Pass::run`, `arn:aws:...:secret:name`.
    let path =
        bytes[end..].starts_with(b"::") || bytes[end..].starts_with(b":") && bytes[..begin].ends_with(b":");
    if !follows || path || text[..begin].ends_with(MARK) {
        return end;
    }
    let begin = begin - qualified(&text[..begin], &text[begin..end]);
    let name = &text[begin..end];
    if kind(name).is_none() {
        return end;
    }
    let before = found.len();
    ValueReader { cursor: Cursor { text, at: end }, name, begin }.value(found);
    // Names inside a long value are not names, and checking each would take quadratic time.
    let inside = |byte: &&u8| !byte.is_ascii_whitespace() && !b"\"'`\\<>,;&|()".contains(byte);
    let run = bytes[end..].iter().take(LONGEST_VALUE).take_while(inside).count();
    let done = if found.len() - before > 1 { found[found.len() - 1].to } else { end };
    if run > 256 { end + run } else { done }
}

/// Return start and end of the name that contains the word between two positions.
fn bounds(bytes: &[u8], from: usize, to: usize) -> (usize, usize) {
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let before =
        bytes[..from].iter().rev().take(LONGEST).take_while(|byte| part(byte) || **byte == b'.').count();
    (from - before, to + bytes[to..].iter().take(LONGEST).take_while(part).count())
}

/// Return whether a value may follow the name that ends at a position. Most such words occur in sentences and code.
fn is_followed(bytes: &[u8], end: usize) -> bool {
    bytes.get(end).is_some_and(|byte| b"\"'`\\=:(,>%]?& \t\n\x1b".contains(byte))
}

/// Return whether [`secrets`] may find any after a word in a string of JSON, as it is written.
pub(super) fn may_have_value(text: &str, from: usize, to: usize) -> bool {
    let bytes = text.as_bytes();
    let (begin, end) = bounds(bytes, from, to);
    // A quote that has no backslash before it ends the string.
    if !is_followed(bytes, end) || bytes[end] == b'"' {
        return false;
    }
    let name = &text[begin..end];
    // The letter of an escape is not of the name, and words before `key` may be.
    let is_uncertain = match bytes[..begin].last() {
        Some(b'\\') => true,
        Some(b' ') => name.eq_ignore_ascii_case("key"),
        _ => false,
    };
    is_uncertain || kind(name).is_some()
}

/// Return the length of the words that qualify a following `key`: `Secret Access Key`, `API key`.
fn qualified(before: &str, name: &str) -> usize {
    const WORDS: [&str; 12] = [
        "api",
        "access",
        "secret",
        "private",
        "account",
        "auth",
        "master",
        "signing",
        "encryption",
        "license",
        "service",
        "admin",
    ];
    if !name.eq_ignore_ascii_case("key") {
        return 0;
    }
    let mut rest = before;
    while let Some(shorter) = rest.strip_suffix(' ') {
        let length = shorter.bytes().rev().take(12).take_while(u8::is_ascii_alphabetic).count();
        let word = shorter[shorter.len() - length..].to_ascii_lowercase();
        if !WORDS.contains(&word.as_str()) {
            break;
        }
        rest = &shorter[..shorter.len() - length];
    }
    before.len() - rest.len()
}

/// Name, and the position of its value.
struct ValueReader<'a> {
    cursor: Cursor<'a>,
    name: &'a str,
    begin: usize,
}

impl ValueReader<'_> {
    /// Find the secret in the value of the name, or those in its list.
    fn value(mut self, found: &mut Vec<Secret>) {
        let quoted = self.cursor.quote().is_some();
        self.cursor.skip_any(&["]", ")", "?"]);
        self.cursor.aside();
        let spaces = self.cursor.space();
        let Some(sign) = self.cursor.sign(quoted, spaces) else { return };
        // `pass` alone is also a verb.
        let verb = self.name.rsplit('.').next().is_some_and(|word| word.eq_ignore_ascii_case("pass"));
        if verb && !matches!(sign, "=" | ":" | "=>" | "%3D" | "%3A") {
            return;
        }
        // `--pass: #3fb950` is a property of a style sheet.
        if sign == ":" && !quoted && self.name.starts_with("--") {
            return;
        }
        if matches!(sign, "=" | ":" | ":=" | "=>") && list(&self.cursor, self.name, found) {
            return;
        }
        let close = !self.cursor.space();
        match self.cursor.quote() {
            Some(quote) => {
                let sure =
                    |secret: &Secret| sign != " " || self.is_sure(&self.cursor.text[secret.from..secret.to]);
                found.extend(self.inside(quote, false).filter(sure));
            }
            None if quoted || sign == "(" || sign == "," => found.extend(self.typed()),
            None => found.extend(self.bare(sign, close).or_else(|| self.typed())),
        }
    }

    /// Return the value up to its closing quote.
    fn inside(&self, quote: &str, typed: bool) -> Option<Secret> {
        let length = closing(self.cursor.rest(), quote).or_else(|| self.cut_short())?;
        let value = &self.cursor.rest()[..length];
        let plain = plain(value);
        let assigned = self.cursor.text[..self.cursor.at - quote.len()].trim_end().ends_with(['=', ':', '>']);
        let family = if assigned && !typed { literal(self.name, &plain) } else { quoted(self.name, &plain) }?;
        Some(Secret::new(self.cursor.at, self.cursor.at + length, family, RANK))
    }

    /// Return the length of a value without its closing quote because the text was truncated.
    fn cut_short(&self) -> Option<usize> {
        let length = Syntax { sign: "=", line: false, query: false }.length(self.cursor.rest());
        (length == self.cursor.rest().len()).then_some(length)
    }

    /// Return the secret in a value without quotes.
    fn bare(&self, sign: &'static str, close: bool) -> Option<Secret> {
        let name = self.name;
        let environment = sign == "=" && !name.bytes().any(|byte| byte.is_ascii_lowercase());
        let syntax = Syntax::of(self.cursor.text, self.begin, sign);
        let length = syntax.length(self.cursor.rest());
        let whole = &self.cursor.rest()[..length];
        let trimmed = whole.trim_end_matches([',', ';', '.', ':']);
        let value = if syntax.line { whole } else { trimmed };
        // In code a delimiter ends a value, too: for `password=a&b` the part before it has to be a secret.
        let first = value.split(['&', ',', ';', '<', '>', '|', ')', '}', ']']).next().unwrap_or(value);
        let certain = environment || syntax.line || name.starts_with('-');
        let code = is_placeholder(trimmed) || is_program(trimmed);
        let judged = |value: &str| if code { None } else { family(name, &plain(value)) };
        let whole_is_code = code;
        let weak = || (!whole_is_code && self.is_weak(trimmed, syntax, close)).then_some("named-password");
        let family = judged(first).or_else(|| certain.then(|| judged(trimmed)).flatten()).or_else(weak)?;
        let element = sign != ">" || self.cursor.rest()[length..].starts_with('<');
        let sure = environment || sign != " " || self.is_sure(value);
        // `PASS: TestOfIt` is output of test runs, and `key: Type = 3` a declaration.
        let told = sign == ":" && matches!(name, "pass" | "Pass" | "PASS");
        let declared = self.cursor.rest()[length..].trim_start_matches(' ').starts_with('=');
        let strong = |value: &str| value.len() >= 10 && is_key(value) || is_passworded(value);
        let code =
            !environment && !name.starts_with('-') && value.contains(['(', '[', '{']) && !strong(value);
        (sure && element && !code && !told && !declared)
            .then(|| Secret::new(self.cursor.at, self.cursor.at + value.len(), family, RANK))
    }

    /// Return whether a value of letters or digits alone is a password, outside code.
    fn is_weak(&self, value: &str, syntax: Syntax, close: bool) -> bool {
        let rest = &self.cursor.rest()[syntax.length(self.cursor.rest())..];
        let over = rest.is_empty() || rest.starts_with(['\n', '\r', '\\']);
        let before = &self.cursor.text[..self.begin];
        // A line of a file of settings, or a variable of a command: in code such a line is indented.
        let is_flush = before.is_empty() || before.ends_with(['\n', '\r']) || before.ends_with("\\n");
        let is_setting = is_flush && syntax.line && over;
        let is_variable =
            ["-e ", "-e", "--env ", "--env=", "export "].iter().any(|word| before.ends_with(word));
        let is_capital = !self.name.bytes().any(|byte| byte.is_ascii_lowercase());
        let capitals = is_capital || syntax.sign == "=" && (is_variable || is_setting);
        // `HorseBattery`: in a line of settings, that of one word may be a message.
        let words = is_setting && is_weak_value(value) && has_inner_capital(value);
        if self.name.eq_ignore_ascii_case("pass") {
            let is_assigned = close && syntax.sign == "=" && (is_setting || is_variable);
            return is_assigned && self.name == "PASS" && is_weak_value(value) && has_inner_capital(value);
        }
        let certain = match syntax.sign {
            ">" => true,
            "=" => {
                let dotted = self.name.contains('.') || self.name.starts_with("--");
                let named = capitals || dotted || syntax.query;
                close && (named || is_connection(self.cursor.text, self.begin, rest)) || is_capital && words
            }
            ":" => syntax.line && over,
            " " => {
                self.name.starts_with("--") || capitals && is_set(self.cursor.text, self.cursor.at, self.name)
            }
            sign => sign.starts_with('%'),
        };
        let is_password = || if capitals { is_weak_value(value) } else { is_weak(value) || words };
        certain && kind(self.name) == Some(NameKind::Password) && is_password()
    }

    /// Return whether a value that follows a name without a sign is assigned to it.
    fn is_sure(&self, value: &str) -> bool {
        is_key(value) || self.name.starts_with('-') || is_set(self.cursor.text, self.cursor.at, self.name)
    }

    /// Return the value after the type of a variable: `password: str = "..."`, `const apiKey string = "..."`.
    fn typed(&mut self) -> Option<Secret> {
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_&<>?[]|. *':".contains(byte);
        let length = self.cursor.rest().bytes().take(40).take_while(part).count();
        if length == 0 || !self.cursor.rest()[length..].starts_with('=') {
            return None;
        }
        self.cursor.at += length + 1;
        self.cursor.space();
        let quote = self.cursor.quote()?;
        self.inside(quote, true)
    }
}

/// Return whether a value has a capital behind its first letter.
fn has_inner_capital(value: &str) -> bool {
    value.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
}

/// Return whether a pair is part of a connection string: `user=bob password=x host=y`, `Pwd=x;Server=y`.
fn is_connection(text: &str, begin: usize, rest: &str) -> bool {
    let before = &text[floor(text, begin.saturating_sub(24))..begin];
    let around = ["host=", "port=", "dbname=", "user=", "Server=", "Uid=", "Database=", "User Id="];
    let next = rest.trim_start_matches([';', ' ']);
    let is_one = |name: &str| next.starts_with(name) || before.contains(name);
    rest.starts_with([';', ' ', '\n', '"', '\'']) && around.iter().any(|name| is_one(name))
}

/// Return whether a name without a sign is set by the word before it: `ENV NAME value`, `configure set name
/// value`.
fn is_set(text: &str, at: usize, name: &str) -> bool {
    let before = text[..at].trim_end_matches(['"', '\'', '\\', ' ']);
    let before = before.strip_suffix(name).unwrap_or(before).trim_end();
    let tail = before[floor(before, before.len().saturating_sub(12))..].to_ascii_lowercase();
    ["set", "env", "arg", "export", "-x", "setx", "identified", "with"]
        .iter()
        .any(|word| tail.ends_with(word))
}

/// Assignment signs, longer ones before shorter ones.
#[rustfmt::skip]
const SIGNS: [&str; 28] = [
    "=>", ":=", "==", "=3D", "=", ":", "%3D%3D", "%3D", "%3d", "%3A", "%3a", "%253D", "%253d", "%253A", "%25253D",
    "%u003D", "%u003d", "\\u003d", "\\u003D", "\\u003a", "\\\\u003d", "\\x3d", "\\x3D", "\\075", "&#61;", "&equals;",
    "&#x3D;", "&#x3d;",
];

/// Position between a name and its value.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skip text between a name and its sign: `[None]`, ` for bob`.
    fn aside(&mut self) {
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
    fn space(&mut self) -> bool {
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
    fn skip_any(&mut self, wanted: &[&str]) {
        if let Some(one) = wanted.iter().find(|one| self.rest().starts_with(**one)) {
            self.at += one.len();
        }
    }

    /// Return an assignment: a sign, or a space between a name and a value.
    fn sign(&mut self, quoted: bool, spaces: bool) -> Option<&'static str> {
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

    fn take(&mut self, sign: &'static str) -> &'static str {
        self.at += sign.len();
        sign
    }

    /// Return a quote in any encoding.
    fn quote(&mut self) -> Option<&'a str> {
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
fn closing(rest: &str, quote: &str) -> Option<usize> {
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

/// Maximum number of items of a list.
const MOST: usize = 1000;

/// Find the secrets in the list that begins at a position, between brackets or in items of YAML; return whether there is one.
fn list(at: &Cursor<'_>, name: &str, found: &mut Vec<Secret>) -> bool {
    let mut cursor = Cursor { text: at.text, at: at.at };
    cursor.space();
    if cursor.rest().starts_with(['[', '(', '{']) {
        cursor.at += 1;
        return bracketed(cursor, name, found);
    }
    let begins = cursor.rest().starts_with('\n') || cursor.rest().starts_with("\\n");
    begins && dashed(cursor, name, found)
}

/// Find those between brackets; return whether the first item is in quotes.
fn bracketed(mut cursor: Cursor<'_>, name: &str, found: &mut Vec<Secret>) -> bool {
    for item in 0..MOST {
        skip_gap(&mut cursor);
        let Some(quote) = cursor.quote() else { return item > 0 };
        let Some(length) = closing(cursor.rest(), quote) else { return item > 0 };
        let value = plain(&cursor.rest()[..length]);
        found.extend(
            literal(name, &value).map(|family| Secret::new(cursor.at, cursor.at + length, family, RANK)),
        );
        cursor.at += length + quote.len();
    }
    true
}

/// Skip the separator between items.
fn skip_gap(cursor: &mut Cursor<'_>) {
    loop {
        let rest = cursor.rest();
        let plain = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', ',']).len();
        let escape = ["\\n", "\\r", "\\t"].iter().find(|escape| rest.starts_with(**escape)).map_or(0, |_| 2);
        if plain + escape == 0 {
            return;
        }
        cursor.at += if plain > 0 { plain } else { escape };
    }
}

/// Find those in lines that begin with a dash; return whether there are any.
fn dashed(mut cursor: Cursor<'_>, name: &str, found: &mut Vec<Secret>) -> bool {
    for item in 0..MOST {
        let rest = cursor.rest();
        let Some(line) = rest.strip_prefix('\n').or_else(|| rest.strip_prefix("\\n")) else {
            return item > 0;
        };
        let behind = line.trim_start_matches([' ', '\t', '+']);
        let Some(value) = behind.strip_prefix("- ") else { return item > 0 };
        cursor.at += rest.len() - value.len();
        let length = value.find(['\n', '\r', '\\']).unwrap_or(value.len());
        let bare = value[..length].trim_matches([' ', '"', '\'']);
        let from = cursor.at + value.find(bare).unwrap_or(0);
        found.extend(family(name, bare).map(|family| Secret::new(from, from + bare.len(), family, RANK)));
        cursor.at += length;
    }
    true
}

/// Escapes that also end a value after a percent-encoded sign.
const ENCODED_ENDS: [&str; 14] = [
    "%26", "%20", "%0A", "%0a", "%0D", "%22", "%27", "%7D", "%2C", "%5C", "%2526", "%2520", "%2522", "%250A",
];

/// Words that may precede an assignment that fills a line.
const BEFORE: [&str; 12] =
    ["export", "ENV", "ARG", "env", "set", "setenv", "declare", "-x", "local", "readonly", "SET", "-e"];

/// Syntax around a value.
#[derive(Clone, Copy, Debug)]
struct Syntax {
    /// Sign between name and value.
    sign: &'static str,
    /// True if name, sign and value fill a line.
    line: bool,
    /// True if the pair is in the query of a URL or in a form.
    query: bool,
}

impl Syntax {
    /// Return the syntax of a value by the text before its name.
    fn of(text: &str, name: usize, sign: &'static str) -> Self {
        let query = sign == "=" && text[..name].ends_with(['?', '&']);
        Self { sign, line: !query && is_line_start(text, name), query }
    }

    /// Return the length of the value at the start of a text.
    fn length(self, rest: &str) -> usize {
        let rest = &rest[..floor(rest, LONGEST_VALUE.min(rest.len()))];
        let length = self.plain_length(rest);
        let encoded = || ENCODED_ENDS.iter().filter_map(|end| rest[..length].find(end)).min();
        self.sign.starts_with('%').then(encoded).flatten().unwrap_or(length)
    }

    fn plain_length(self, rest: &str) -> usize {
        let bytes = rest.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let ends = match byte {
                b'`' | 0x1b => true,
                b'\\' => match escape(&rest[at..]) {
                    Some(width) => {
                        at += width;
                        continue;
                    }
                    None => true,
                },
                b'<' if self.sign == ">" => true,
                _ if self.sign == ">" => byte == b'\n',
                b'&' => self.query || ends_pair(&rest[at + 1..]),
                b'<' => is_tag(&rest[at + 1..]),
                b',' | b';' | b'|' | b')' | b'}' | b']' | b'>' => self.closes(&rest[at..]),
                b'"' | b'\'' => !self.line || !bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric),
                _ => byte.is_ascii_whitespace(),
            };
            if ends {
                return at;
            }
            at += 1;
        }
        at
    }

    /// Return whether the delimiter at the start of a text ends the value before it.
    fn closes(self, rest: &str) -> bool {
        let behind = rest.trim_start_matches([',', ';', '|', ')', '}', ']', '>', '"', '\'', '&']);
        let marks = &rest[..rest.len() - behind.len()];
        let over =
            behind.is_empty() || behind.starts_with(|letter: char| letter.is_whitespace() || letter == '\\');
        if over && self.line && self.sign == "=" && !marks.contains(['"', '\'']) {
            return false;
        }
        over || marks.contains(['"', '\''])
            || behind.starts_with(['.', '`', '<', '[', '{'])
            || is_pair(behind)
    }
}

/// Return the length of an escaped character of a value, or `None` if the escape ends it.
fn escape(rest: &str) -> Option<usize> {
    let slashes = rest.bytes().take_while(|&byte| byte == b'\\').count();
    let next = *rest.as_bytes().get(slashes)?;
    let symbol = next.is_ascii_punctuation() && !b"\"'`".contains(&next);
    symbol.then_some(slashes + 1)
}

/// Return whether the text after `&` shows that the value before it has ended.
fn ends_pair(rest: &str) -> bool {
    let rest = match rest.strip_prefix("amp;") {
        Some(rest) => return is_pair(rest),
        None => rest,
    };
    let entity = ["quot;", "apos;", "lt;", "gt;", "nbsp;", "#34;", "#39;", "#x27;", "#x22;", "#10;"];
    rest.is_empty()
        || rest.starts_with(|letter: char| letter == '&' || letter.is_whitespace())
        || entity.iter().any(|name| rest.starts_with(name))
        || is_pair(rest)
}

/// Return whether a text begins with a name and a sign.
fn is_pair(rest: &str) -> bool {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.[] ".contains(byte);
    let name = rest.bytes().take(40).take_while(part).count();
    rest.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && rest[name..].starts_with(['=', ':'])
}

/// Return whether the text after `<` is the rest of a tag, or empty.
fn is_tag(rest: &str) -> bool {
    let name = rest.bytes().take(40).take_while(u8::is_ascii_alphanumeric).count();
    rest.is_empty()
        || rest.starts_with(|letter: char| "/!<".contains(letter) || letter.is_whitespace())
        || rest.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && rest[name..].starts_with(['>', '/', ' '])
}

/// Return whether a name at a position begins its line, apart from words like `export`, a diff mark and a
/// number.
fn is_line_start(text: &str, name: usize) -> bool {
    let near = &text[floor(text, name.saturating_sub(64))..name];
    let start = near.rfind('\n').map(|at| at + 1).max(near.rfind("\\n").map(|at| at + 2));
    let lead = match start {
        Some(start) => &near[start..],
        None if near.len() == name => near,
        None => return false,
    };
    let lead = lead.trim_start_matches(['+', '-', '>', '#', ' ', '\t', '@']);
    let digits = lead.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let lead = digits.trim_start_matches(['\u{2192}', ':', '|', '\t', ' ', '+', '-']);
    lead.split_ascii_whitespace().all(|word| BEFORE.contains(&word))
}

/// Return a value without the escapes of its encodings, for the checks.
fn plain(value: &str) -> String {
    value
        .replace("%3D", "=")
        .replace("%2B", "+")
        .replace("%2F", "/")
        .replace("%2b", "+")
        .replace("%2f", "/")
        .replace("\\u003d", "=")
        .replace("\\u0026", "&")
        .replace("&amp;", "&")
        .replace('\\', "")
}
