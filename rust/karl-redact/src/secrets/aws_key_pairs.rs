//! Detection of AWS secret access keys without a name beside an access key id: in tables, dialogues and
//! lists.

use super::named::is_aws;
use super::randomness::is_random;
use super::secret::{RANK, Secret};

/// Maximum distance from the id in bytes.
const REACH: usize = 400;

/// Find text with the form of a secret access key around the id between two positions.
pub(super) fn secret_keys(text: &str, from: usize, to: usize, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    let (mut at, end) = (from.saturating_sub(REACH), (to + REACH).min(bytes.len()));
    while at < end {
        let length = bytes[at..].iter().take(64).take_while(|&&byte| is_base64(byte)).count();
        let escape = usize::from(at > 0 && bytes[at - 1] == b'\\' && b"nrt".contains(&bytes[at]));
        let begin = at + escape;
        if length == 40 + escape && is_alone(bytes, at, begin + 40) {
            let key = &text[begin..begin + 40];
            let cased = key.bytes().any(|byte| byte.is_ascii_lowercase())
                && key.bytes().any(|byte| byte.is_ascii_uppercase());
            if cased && is_aws(key) && is_random(key) {
                found.push(Secret::new(begin, begin + 40, "aws-secret-key", RANK));
            }
        }
        at += length.max(1);
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/".contains(&byte)
}

/// Return whether a part of a text is not a part of a longer word.
fn is_alone(bytes: &[u8], from: usize, to: usize) -> bool {
    let joins = |byte: &u8| is_base64(*byte) || b"_-".contains(byte);
    !from.checked_sub(1).is_some_and(|at| joins(&bytes[at])) && !bytes.get(to).is_some_and(joins)
}
