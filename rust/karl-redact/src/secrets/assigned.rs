//! Detection of secrets by the name they are assigned to: `DB_PASSWORD=...`, `"apiKey": "..."`, `--token
//! ...`.

use super::cursor::{Cursor, closing};
use super::is_secret::{is_key, is_placeholder, is_weak, is_weak_value};
use super::list;
use super::looks_like_code::is_program;
use super::named::{LONGEST, NameKind, family, is_passworded, kind, literal, quoted};
use super::secret::{MARK, RANK, Secret, floor};
use super::unquoted_end::{Syntax, plain};

/// Maximum length of a value.
const LONGEST_VALUE: usize = 4096;

/// Find the secrets after a name that contains the word at a position; return the end of the name.
pub(super) fn secrets(text: &str, from: usize, to: usize, found: &mut Vec<Secret>) -> usize {
    let bytes = text.as_bytes();
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let begin = from
        - bytes[..from].iter().rev().take(LONGEST).take_while(|byte| part(byte) || **byte == b'.').count();
    let end = to + bytes[to..].iter().take(LONGEST).take_while(part).count();
    // Most such words occur in sentences and code.
    let follows = bytes.get(end).is_some_and(|byte| b"\"'`\\=:(,>%]?& \t\n\x1b".contains(byte));
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
        if matches!(sign, "=" | ":" | ":=" | "=>") && list::secrets(&self.cursor, self.name, found) {
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
