//! Pseudonyms of e-mail addresses, and of the names of users and hosts.
//!
//! ```text
//! alice@shop.org          person-5f0c9a1e@pseudonym.invalid
//! /home/alice, C:\Users\alice, -Users-alice, alice@laptop:     the user alice, and the host laptop
//! ... wherever they are in that line, as words                 user-90ab12cd, host-1c2d3e4f
//! ```
//!
//! A pseudonym is SipHash-2-4 of the name under a secret key, so that equal names have equal pseudonyms as long
//! as the key is the same, and names cannot be tried without it. Texts are replaced as they are in JSON: an escape
//! such as `\n` in front of a name is not a part of it. Replacing twice is as replacing once.

use std::collections::BTreeMap;
use std::hash::Hasher;

use memchr::memmem::find_iter;
use memchr::{memchr, memchr_iter, memchr2};
use siphasher::sip::SipHasher24;

/// Domain of the pseudonyms of addresses; `invalid` is reserved, and no mail goes there.
const DOMAIN: &str = "pseudonym.invalid";

/// Domains of addresses in documentation.
const DOCUMENTATION: [&str; 4] = ["example.com", "example.org", "example.net", DOMAIN];

/// Names of users and hosts that belong to no single person or machine, and words of pseudonyms.
const GENERIC: [&str; 26] = [
    "root",
    "user",
    "users",
    "admin",
    "home",
    "ubuntu",
    "debian",
    "runner",
    "vscode",
    "node",
    "git",
    "app",
    "dev",
    "test",
    "tmp",
    "shared",
    "public",
    "default",
    "guest",
    "host",
    "localhost",
    "person",
    "www",
    "data",
    "work",
    "pseudonym",
];

/// Minimum bytes of a name that is replaced: shorter ones are in too many words.
const SHORTEST: usize = 3;

/// Folders of homes, before the name of their user.
const HOMES: [&str; 5] = ["/home/", "/Users/", "-home-", "-Users-", "Users\\"];

/// Kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Person,
    User,
    Host,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::User => "user",
            Self::Host => "host",
        }
    }
}

/// Replacement of personal data under one key.
#[derive(Clone, Debug)]
pub struct Pseudonyms {
    key: [u8; 16],
    known: BTreeMap<String, Kind>,
}

impl Pseudonyms {
    /// Return the replacement under a key; `users` and `hosts` are replaced wherever they are words.
    #[must_use]
    pub fn new(key: [u8; 16], users: Vec<String>, hosts: Vec<String>) -> Self {
        let users = users.into_iter().map(|name| (name, Kind::User));
        let hosts = hosts.into_iter().map(|name| (name, Kind::Host));
        let known = users.chain(hosts).filter(|(name, _)| is_own(name)).collect();
        Self { key, known }
    }

    /// Return a row of JSON with the personal data in its strings replaced; `None` if it has none. A key that is
    /// a name as a whole stays: it may be a field of that format.
    #[must_use]
    pub fn replaced(&self, row: &str) -> Option<String> {
        let mut spans = self.spans(row);
        keep_structure(row, &mut spans);
        (!spans.is_empty()).then(|| joined(row, &spans))
    }

    /// Find the personal data of a text, in order.
    fn spans(&self, text: &str) -> Vec<Span> {
        let mut known = self.known.clone();
        let mut spans = self.addresses(text, &mut known);
        find_homes(text, &mut known);
        for (name, kind) in &known {
            spans.extend(find_iter(text.as_bytes(), name.as_bytes()).filter_map(|from| {
                let to = from + name.len();
                let is_word = begins(text.as_bytes(), from)
                    && !text.as_bytes().get(to).is_some_and(|&byte| is_word(byte));
                is_word.then(|| Span { from, to, name: self.pseudonym(*kind, name) })
            }));
        }
        // An address is replaced as a whole, and so is the longer of two names.
        spans.sort_by_key(|span| (span.from, std::cmp::Reverse(span.to)));
        spans
    }

    /// Find addresses, and the users and hosts of prompts like `alice@laptop:`.
    fn addresses(&self, text: &str, known: &mut BTreeMap<String, Kind>) -> Vec<Span> {
        let bytes = text.as_bytes();
        let mut spans = Vec::new();
        for at in memchr_iter(b'@', bytes) {
            let (from, to) = (local(bytes, at), at + 1 + domain(&bytes[at + 1..]));
            let (user, host) = (&text[from..at], &text[at + 1..to]);
            if is_address(user, host) {
                let name = self.pseudonym(Kind::Person, &text[from..to].to_lowercase());
                spans.push(Span { from, to, name: format!("{name}@{DOMAIN}") });
            } else if !host.contains('.') && bytes.get(to) == Some(&b':') && is_own(user) {
                known.insert(user.to_owned(), Kind::User);
                if is_own(host) {
                    known.insert(host.to_owned(), Kind::Host);
                }
            }
        }
        spans
    }

    fn pseudonym(&self, kind: Kind, name: &str) -> String {
        let mut hash = SipHasher24::new_with_key(&self.key);
        hash.write(kind.word().as_bytes());
        hash.write(name.as_bytes());
        format!("{}-{:08x}", kind.word(), hash.finish() >> 32)
    }
}

/// Add the users of homes in a text.
fn find_homes(text: &str, known: &mut BTreeMap<String, Kind>) {
    for home in HOMES {
        for from in find_iter(text.as_bytes(), home.as_bytes()) {
            let rest = text[from + home.len()..].trim_start_matches('\\');
            let dashed = home.starts_with('-'); // a path with dashes for slashes, as Claude Code names projects
            let end = rest.find(|one: char| {
                !(one.is_alphanumeric() || one == '_' || (!dashed && (one == '.' || one == '-')))
            });
            let name = rest[..end.unwrap_or(rest.len())].trim_end_matches(['.', '-']);
            if is_own(name) {
                known.entry(name.to_owned()).or_insert(Kind::User);
            }
        }
    }
}

/// Return whether a name is of one person or machine, and not a pseudonym already.
fn is_own(name: &str) -> bool {
    let letters = name.chars().any(char::is_alphabetic);
    name.len() >= SHORTEST && letters && !GENERIC.contains(&name) && !is_pseudonym(name)
}

fn is_pseudonym(name: &str) -> bool {
    let tail = ["user-", "host-", "person-"].iter().find_map(|word| name.strip_prefix(word));
    tail.is_some_and(|tail| tail.len() == 8 && tail.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_address(user: &str, host: &str) -> bool {
    let top = host.rsplit_once('.').map_or("", |(_, top)| top);
    let is_host = top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic());
    !user.is_empty()
        && user != "git"
        && is_host
        && !DOCUMENTATION.iter().any(|name| host.eq_ignore_ascii_case(name))
}

/// Return where the part of an address before its `@` begins.
fn local(bytes: &[u8], at: usize) -> usize {
    let is_local = |&byte: &u8| byte.is_ascii_alphanumeric() || b"._%+-".contains(&byte);
    let from = at - bytes[..at].iter().rev().take_while(|byte| is_local(byte)).count();
    (from + escape(&bytes[..at], from)).min(at)
}

/// Return the bytes of a name that belong to an escape in front of it: 1 of `\nalice`, 5 of `\u001balice`.
fn escape(bytes: &[u8], from: usize) -> usize {
    if from == 0 || bytes[from - 1] != b'\\' {
        return 0;
    }
    match bytes.get(from) {
        Some(b'u') => 5,
        Some(b'n' | b'r' | b't' | b'b' | b'f') => 1,
        _ => 0,
    }
}

/// Return the length of the domain at the beginning of a text.
fn domain(bytes: &[u8]) -> usize {
    let is_domain = |&byte: &u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    let length = bytes.iter().take_while(|byte| is_domain(byte)).count();
    length - bytes[..length].iter().rev().take_while(|byte| b".-".contains(byte)).count()
}

/// Return whether a word may begin at a place.
fn begins(bytes: &[u8], at: usize) -> bool {
    let escaped = at >= 2 && bytes[at - 2] == b'\\' && b"nrtbf".contains(&bytes[at - 1]);
    at == 0 || escaped || !is_word(bytes[at - 1])
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Part of a row that is replaced, and the name that replaces it.
struct Span {
    from: usize,
    to: usize,
    name: String,
}

/// Return the text with each span replaced, the first of those that overlap.
fn joined(text: &str, spans: &[Span]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        if span.from >= at {
            clean.push_str(&text[at..span.from]);
            clean.push_str(&span.name);
            at = span.to;
        }
    }
    clean + &text[at..]
}

/// Leave out the spans, which are in order, that are outside of the strings of a row, or a key as a whole.
fn keep_structure(row: &str, spans: &mut Vec<Span>) {
    let mut string = (0, 0);
    spans.retain(|span| {
        while string.1 < span.to {
            match string_after(row.as_bytes(), string.1) {
                Some(next) => string = next,
                None => return false,
            }
        }
        let is_whole = (span.from, span.to) == string;
        span.from >= string.0 && !(is_whole && row[string.1 + 1..].trim_start().starts_with(':'))
    });
}

/// Return the first and last byte of the content of the next string after the end of another.
fn string_after(row: &[u8], end: usize) -> Option<(usize, usize)> {
    let begin = if end == 0 { 0 } else { end + 1 };
    let from = begin + memchr(b'"', &row[begin..])? + 1;
    let mut at = from;
    loop {
        at += memchr2(b'"', b'\\', &row[at..])?;
        if row[at] == b'"' {
            return Some((from, at));
        }
        at += 2; // an escape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Pseudonyms {
        Pseudonyms::new([7; 16], vec!["carol".to_owned(), "dev".to_owned()], vec!["thinkpad".to_owned()])
    }

    fn clean(text: &str) -> String {
        joined(text, &names().spans(text))
    }

    #[test]
    fn names_of_a_home_are_replaced_wherever_they_are_words() {
        let user = names().pseudonym(Kind::User, "alice");
        let text = r#"{"cwd":"/home/alice/shop","out":"drwx alice alice\nalice x-alice malice C:\\Users\\alice\\x"}"#;
        let wanted = text.replace("malice", "m_").replace("alice", &user).replace("m_", "malice");
        assert_eq!(clean(text), wanted);
        assert_eq!(clean("/Users/mary.ann/x -Users-mary.ann-x").matches("mary").count(), 0);
    }

    #[test]
    fn addresses_and_prompts_are_replaced() {
        let person = names().pseudonym(Kind::Person, "bob.b@shop.org");
        assert_eq!(clean("to Bob.B@shop.org."), format!("to {person}@pseudonym.invalid."));
        assert_eq!(clean(r#""\nbob.b@shop.org""#), format!(r#""\n{person}@pseudonym.invalid""#));
        assert_eq!(clean(r#""\u001bbob.b@shop.org""#), format!(r#""\u001b{person}@pseudonym.invalid""#));
        let prompt = clean("erin@tower:~$ ping tower");
        assert!(!prompt.contains("erin") && !prompt.contains("tower"), "{prompt}");
        assert!(!clean("ssh thinkpad, carol").contains("thinkpad, carol"));
    }

    #[test]
    fn what_is_no_person_stays() {
        for text in
            ["git@github.com:a/b", "a@example.com", "/root/x /home/runner/x", "react@18.2", "@scope/x", "dev"]
        {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn replacing_twice_is_as_replacing_once() {
        let once = clean(r"/home/alice carol@x.org erin@tower:/ \\nalice@b.co C:\Users\bob\x thinkpad");
        assert_eq!(clean(&once), once);
    }

    #[test]
    fn the_structure_of_a_row_stays() {
        let row = r#"{"role":"x","cwd":"/home/role","at":"/home/carol/a","n":null,"role_of":"/home/null","carol":"carol","carol@x.org":1}"#;
        let clean = names().replaced(row).unwrap();
        assert!(clean.starts_with(r#"{"role":"x","cwd":"/home/user-"#), "{clean}");
        assert!(clean.contains(r#""n":null,"role_of":"/home/user-"#), "{clean}");
        assert!(clean.contains(r#","carol":"user-"#) && !clean.contains("carol@x.org"), "{clean}");
        assert_eq!(names().replaced(&clean), None, "{clean}");
    }

    #[test]
    fn another_key_gives_other_pseudonyms() {
        let other = Pseudonyms::new([8; 16], vec![], vec![]);
        assert_ne!(other.pseudonym(Kind::User, "alice"), names().pseudonym(Kind::User, "alice"));
    }
}
