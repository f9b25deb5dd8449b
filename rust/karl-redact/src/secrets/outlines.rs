//! Outlines of secrets that have no sign: the distances between their separators, `.` and `-`.

/// Text with the outline of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outline {
    pub(super) family: &'static str,
    pub(super) from: usize,
}

/// Return whether a byte is a separator.
pub(super) const fn is_separator(byte: u8) -> bool {
    byte == b'.' || byte == b'-'
}

/// Add the outlines with a separator at a position.
pub(super) fn add(bytes: &[u8], at: usize, outlines: &mut Vec<Outline>) {
    let mut add = |family, from| outlines.push(Outline { family, from });
    if bytes[at] == b'-' {
        if bytes.get(at + 9) == Some(&b'-') && at >= 32 && hex(&bytes[at - 32..at]) {
            add("mailgun", at - 32);
        }
        return;
    }
    let uuid = bytes.get(at + 9) == Some(&b'-') && bytes.get(at + 37) == Some(&b'.');
    if uuid && at > 0 && bytes[at - 1] == b'0' {
        add("bitwarden", at - 1);
    }
    if bytes.get(at + 7) == Some(&b'.') {
        let length =
            run(&bytes[at.saturating_sub(29)..at], |b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if (23..=29).contains(&length) {
            add("discord", at - length);
        }
    }
    if bytes.get(at + 16).is_some_and(u8::is_ascii_alphanumeric) && at >= 32 && hex(&bytes[at - 32..at]) {
        add("zhipu", at - 32);
    }
    if at >= 17 && bytes[at - 17..].starts_with(b"pat") {
        add("airtable", at - 17);
    }
}

/// Return whether all bytes are hexadecimal digits.
fn hex(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_hexdigit)
}

/// Return the number of bytes of a kind at the end.
fn run(bytes: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    bytes.iter().rev().take_while(|&&byte| kind(byte)).count()
}
