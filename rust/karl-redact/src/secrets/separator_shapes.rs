//! Secrets without a fixed sign, found by the distance between their separators.

use memchr::memchr2_iter;

/// Call `found` with the family and the start of every text with the outline of a secret.
pub(super) fn each(text: &str, mut found: impl FnMut(&'static str, usize)) {
    let bytes = text.as_bytes();
    for at in memchr2_iter(b'.', b'-', bytes) {
        if bytes[at] == b'-' {
            if bytes.get(at + 9) == Some(&b'-') && at >= 32 && hex(&bytes[at - 32..at]) {
                found("mailgun", at - 32);
            }
            continue;
        }
        let uuid = bytes.get(at + 9) == Some(&b'-') && bytes.get(at + 37) == Some(&b'.');
        if uuid && at > 0 && bytes[at - 1] == b'0' {
            found("bitwarden", at - 1);
        }
        if bytes.get(at + 7) == Some(&b'.') {
            let length =
                run(&bytes[at.saturating_sub(29)..at], |b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
            if (23..=29).contains(&length) {
                found("discord", at - length);
            }
        }
        if bytes.get(at + 16).is_some_and(u8::is_ascii_alphanumeric) && at >= 32 && hex(&bytes[at - 32..at]) {
            found("zhipu", at - 32);
        }
        if at >= 17 && bytes[at - 17..].starts_with(b"pat") {
            found("airtable", at - 17);
        }
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
