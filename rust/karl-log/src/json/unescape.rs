//! Text of a JSON string.

use std::borrow::Cow;

/// Return the text of a JSON string; `None` if it is invalid (bad escape, lone surrogate, bad UTF-8, raw
/// control character).
pub fn unescape(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1))?;
    if odd_bytes(inner, 0) == 0 {
        std::str::from_utf8(inner).ok().map(Cow::Borrowed)
    } else {
        serde_json::from_slice(quoted).ok().map(Cow::Owned)
    }
}

/// Return the bytes of a JSON string that is ASCII without escapes.
#[inline]
pub(crate) fn plain(quoted: &[u8]) -> Option<&[u8]> {
    let inner = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (odd_bytes(inner, u64::MAX) == 0).then_some(inner)
}

/// Return nonzero if a byte is a backslash or a control character, or is not ASCII and `beyond` has its high
/// bits. Names are short: eight bytes at a time, the last eight once more.
#[inline]
fn odd_bytes(bytes: &[u8], beyond: u64) -> u64 {
    const EACH: u64 = u64::MAX / 0xff;
    let odd = |word: u64| {
        let backslash = word ^ (EACH * 0x5c);
        let control = word.wrapping_sub(EACH * 0x20) & !word;
        (control | (backslash.wrapping_sub(EACH) & !backslash) | (word & beyond)) & (EACH * 0x80)
    };
    let Some(last) = bytes.last_chunk() else { return odd(short_word(bytes)) };
    let (words, _) = bytes.as_chunks();
    words.iter().fold(odd(u64::from_le_bytes(*last)), |all, word| all | odd(u64::from_le_bytes(*word)))
}

/// Load fewer than eight bytes into a word without a loop: some bytes occur twice; empty input gives spaces.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    }
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(b' ');
    let (first, second, third) = (byte(0), byte(1), byte(2));
    u64::from_le_bytes([first, second, third, first, second, third, first, first])
}

/// Value of each byte as a hexadecimal digit; for other bytes a number that no four digits produce.
const DIGITS: [u32; 256] = {
    let mut digits = [u32::MAX; 256];
    let (mut digit, mut worth) = (0, 0);
    while digit < 16 {
        digits[b"0123456789abcdef"[digit] as usize] = worth;
        digits[b"0123456789ABCDEF"[digit] as usize] = worth;
        (digit, worth) = (digit + 1, worth + 1);
    }
    digits
};

/// Return the code unit of `uXXXX` at a position.
#[inline(always)]
pub(crate) fn unit(text: &[u8], at: usize) -> Option<u32> {
    let [b'u', digits @ ..] = text.get(at..)?.first_chunk::<5>()? else { return None };
    let [first, second, third, last] = digits.map(|digit| DIGITS[usize::from(digit)]);
    let valid = first | second | third | last < 16;
    valid.then_some(first << 12 | second << 8 | third << 4 | last)
}

#[cfg(test)]
mod tests {
    use super::odd_bytes;

    #[test]
    fn a_byte_is_odd_or_not_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            let odd = byte < 0x20 || byte == b'\\';
            for (length, at) in (1..40).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let mut bytes = vec![b'\x7f'; length];
                bytes[at] = byte;
                assert_eq!(odd_bytes(&bytes, 0) != 0, odd, "{byte} at {at} of {length}");
                assert_eq!(
                    odd_bytes(&bytes, u64::MAX) != 0,
                    odd || byte >= 0x80,
                    "{byte} at {at} of {length}"
                );
            }
        }
    }
}
