//! Numbers, words, and the escapes that have digits.

/// Whether a text begins with a number or a word, and neither goes on behind it.
pub(super) fn is_scalar(text: &[u8]) -> bool {
    let rest = match text {
        [b't', ..] => text.strip_prefix(b"true"),
        [b'f', ..] => text.strip_prefix(b"false"),
        [b'n', ..] => text.strip_prefix(b"null"),
        _ => number(text),
    };
    rest.is_some_and(|rest| matches!(rest, [] | [b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r', ..]))
}

/// What comes behind a number.
fn number(text: &[u8]) -> Option<&[u8]> {
    let whole = text.strip_prefix(b"-").unwrap_or(text);
    let mut rest = match whole {
        [b'0', rest @ ..] => rest,
        _ => digits(whole)?,
    };
    if let [b'.', fraction @ ..] = rest {
        rest = digits(fraction)?;
    }
    if let [b'e' | b'E', b'+' | b'-', power @ ..] | [b'e' | b'E', power @ ..] = rest {
        rest = digits(power)?;
    }
    Some(rest)
}

/// What comes behind one digit or more.
fn digits(text: &[u8]) -> Option<&[u8]> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| &text[count..])
}

/// What a byte is worth as a digit of base 16; else a number that no such digits make.
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

/// The code unit of `uXXXX` at a place of a text.
#[inline(always)]
pub(super) fn unit(text: &[u8], at: usize) -> Option<u32> {
    let [b'u', digits @ ..] = text.get(at..)?.first_chunk::<5>()? else { return None };
    let [first, second, third, last] = digits.map(|digit| DIGITS[usize::from(digit)]);
    let valid = first | second | third | last < 16;
    valid.then_some(first << 12 | second << 8 | third << 4 | last)
}
