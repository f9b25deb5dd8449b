//! Passwords and tokens in URLs: `scheme://user:password@host`.

use super::is_secret::{is_key, is_placeholder};
use super::secret::{RANK, Secret, floor};

/// Separator after the scheme in all encodings.
pub(super) const SIGNS: [&str; 7] =
    ["://", "%3A%2F%2F", "%3a%2f%2f", ":\\/\\/", ":\\\\/\\\\/", "%253A%252F%252F", ":\\u002f\\u002f"];

/// Maximum length of a user and a password together.
const LONGEST: usize = 512;

/// Return the password of the URL with its sign at a position, or the token in its place.
pub(super) fn password(text: &str, sign: usize, from: usize) -> Option<Secret> {
    if !text.as_bytes()[..sign].last().is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let encoded = text.as_bytes()[sign] == b'%';
    let (colons, ats): (&[&str], &[&str]) = match encoded {
        true if text[sign..].starts_with("%25") => (&["%253A", "%253a"], &["%2540"]),
        true => (&["%3A", "%3a", ":"], &["%40", "@"]),
        false => (&[":"], &["@", "%40"]),
    };
    let end = from + length(&text.as_bytes()[from..]);
    let rest = &text[from..floor(text, end)];
    let at = at_sign(rest, ats)?;
    // `image:1.25@sha256:9f86...` is a pinned image, without a password.
    if rest[at..].trim_start_matches(['@', '%', '4', '0']).starts_with("sha256:") {
        return None;
    }
    let user = &rest[..at];
    let Some((colon, width)) = first(user, colons) else { return token(user, from) };
    if !encoded && (user[..colon].contains(['/', '?', '#', '[', ']']) || !is_escaped(&user[..colon])) {
        return None;
    }
    let (name, password) = (&user[..colon], &user[colon + width..]);
    if let Some(secret) = token(name, from) {
        return Some(secret);
    }
    let web = text.as_bytes()[sign.saturating_sub(5)..sign].to_ascii_lowercase();
    let fewest = match name.is_empty() {
        true => 3,
        false if web.ends_with(b"http") || web.ends_with(b"https") => 6,
        false => 4,
    };
    let short = !name.is_empty() && password.len() < 6 && !password.bytes().any(|byte| byte.is_ascii_digit());
    let secret = password.len() >= fewest && !short && is_one(name, password);
    secret.then(|| Secret::new(from + colon + width, from + at, "url-password", RANK))
}

/// Return whether a URL whose sign ends at a position may have a user before its host. It ends at the same byte in a string
/// of JSON as it is written.
pub(super) fn may_have_user(text: &str, from: usize) -> bool {
    let rest = &text.as_bytes()[from..];
    let rest = &rest[..length(rest)];
    memchr::memchr2(b'@', b'%', rest).is_some()
}

/// Return whether each `%` in a user name begins an escape, as that of `bob%40example.com` does.
fn is_escaped(name: &str) -> bool {
    name.split('%')
        .skip(1)
        .all(|part| part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

/// Return a user name that is a token.
fn token(user: &str, from: usize) -> Option<Secret> {
    let plain = user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    (plain && is_key(user)).then(|| Secret::new(from, from + user.len(), "url-password", RANK))
}

/// Return whether the text after a user name is a password, and neither a port nor a placeholder.
fn is_one(name: &str, password: &str) -> bool {
    let port = password.bytes().take_while(u8::is_ascii_digit).count();
    let is_port = port > 0 && (port == password.len() || b"/?#".contains(&password.as_bytes()[port]));
    let same = !name.is_empty() && password.eq_ignore_ascii_case(name);
    let holds = is_placeholder(password) || ["%20", "%22", "%0A"].iter().any(|end| password.contains(end));
    let is_other = is_port && !name.is_empty() || same || holds || password.contains("://");
    !is_other
}

/// Return the `@` before the host: the last one, unless there is a host before it.
fn at_sign(rest: &str, ats: &[&str]) -> Option<usize> {
    let (mut at, mut width) = first(rest, &ats[..1])?;
    while let Some((next, more)) = first(&rest[at + width..], &ats[..1]) {
        if is_host(&rest[at + width..at + width + next]) {
            break;
        }
        (at, width) = (at + width + next, more);
    }
    Some(at)
}

/// Return whether a text begins with a host name: with a dot or a port in it, up to a path or its end.
fn is_host(text: &str) -> bool {
    let name = text.split(['/', '?', '#', ',', '%']).next().unwrap_or(text);
    let fits = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
    fits && (name.contains(['.', ':']) || name == "localhost") && name.len() > 3
}

/// Return the maximum length of a URL: a quote or a mark between letters belongs to a password.
fn length(bytes: &[u8]) -> usize {
    let ends = |at: usize| match bytes[at] {
        b'\'' | b'<' | b'>' | b'`' | b'|' => {
            !bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric)
                || !at.checked_sub(1).is_some_and(|at| bytes[at].is_ascii_alphanumeric())
        }
        byte => byte <= b' ' || byte == b'"' || byte == b'\\' || byte >= 0x7f,
    };
    (0..bytes.len().min(LONGEST)).find(|&at| ends(at)).unwrap_or(bytes.len().min(LONGEST))
}

/// Return position and length of the first occurrence of any of some texts.
fn first(text: &str, wanted: &[&str]) -> Option<(usize, usize)> {
    wanted.iter().filter_map(|one| Some((text.find(one)?, one.len()))).min()
}
