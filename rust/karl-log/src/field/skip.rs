//! Where a value ends, found by structure alone: the closing quote of a string, the depth of a container.
//!
//! Nothing between the tokens is judged here; see [`super`] for who does.

use memchr::memchr2;
use wide::u8x16;

use super::{Fault, Step, blocks};

/// The first position from `at` on that is not JSON white space.
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The position after the value that begins at `at`.
#[inline]
pub(crate) fn skip_value(bytes: &[u8], at: usize) -> Step<usize> {
    match bytes.get(at) {
        None => Err(Fault::Truncated),
        Some(b'"') => skip_string(bytes, at),
        Some(b'{' | b'[') => skip_container(bytes, at),
        Some(_) => skip_scalar(bytes, at),
    }
}

#[inline(never)]
fn skip_container(bytes: &[u8], at: usize) -> Step<usize> {
    blocks::end(&bytes[at..]).map(|end| at + end).ok_or(Fault::Truncated)
}

/// A number or a word: it ends where one of `,}]` or white space stands. Most are short, as strings are.
#[inline]
fn skip_scalar(bytes: &[u8], at: usize) -> Step<usize> {
    match bytes[at..].first_chunk().map(|first| ends_scalar(u8x16::new(*first)).to_bitmask()) {
        Some(found) if found > 1 && found & 1 == 0 => Ok(at + found.trailing_zeros() as usize),
        _ => long_scalar(bytes, at),
    }
}

#[inline(never)]
fn long_scalar(bytes: &[u8], at: usize) -> Step<usize> {
    match bytes[at..].iter().position(|byte| b",}] \t\n\r".contains(byte)) {
        None => Err(Fault::Truncated),
        Some(0) => Err(Fault::Malformed(at)),
        Some(length) => Ok(at + length),
    }
}

#[inline]
fn ends_scalar(bytes: u8x16) -> u8x16 {
    let is = |byte| bytes.simd_eq(u8x16::splat(byte));
    is(b',') | is(b'}') | is(b']') | is(b' ') | is(b'\t') | is(b'\n') | is(b'\r')
}

/// The position after the string whose opening quote is at `at`.
#[inline]
pub(crate) fn skip_string(bytes: &[u8], at: usize) -> Step<usize> {
    match short_string(bytes, at) {
        Some(end) => Ok(end),
        None => long_string(bytes, at).map(|(end, _)| end),
    }
}

/// The same, and whether there is an escape in the string.
pub(super) fn string(bytes: &[u8], at: usize) -> Step<(usize, bool)> {
    short_string(bytes, at).map_or_else(|| long_string(bytes, at), |end| Ok((end, false)))
}

/// Most strings are short and have no escape.
#[inline]
fn short_string(bytes: &[u8], at: usize) -> Option<usize> {
    let (quotes, found) = quotes_and_backslashes(bytes.get(at + 1..)?.first_chunk()?);
    let first = found & found.wrapping_neg();
    (quotes & first != 0).then(|| at + 2 + quotes.trailing_zeros() as usize)
}

/// One bit a byte for the quotes, and for both.
#[inline]
fn quotes_and_backslashes(bytes: &[u8; 32]) -> (u32, u32) {
    let ([low, high], _) = bytes.as_chunks() else { return (0, 0) };
    let (low, high) = (u8x16::new(*low), u8x16::new(*high));
    let bits = |byte| {
        let [low, high] = [low, high].map(|part| part.simd_eq(u8x16::splat(byte)).to_bitmask());
        low | high << 16
    };
    let quotes = bits(b'"');
    (quotes, quotes | bits(b'\\'))
}

#[inline(never)]
fn long_string(bytes: &[u8], at: usize) -> Step<(usize, bool)> {
    let mut from = at + 1;
    let mut escaped = false;
    while let Some(found) = bytes.get(from..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        from += found + 1;
        if bytes[from - 1] == b'"' {
            return Ok((from, escaped));
        }
        escaped = true;
        from += 1;
    }
    Err(Fault::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The end of a container, byte after byte.
    fn naive(bytes: &[u8]) -> Step<usize> {
        let (mut depth, mut in_string, mut escaped) = (0, false, false);
        for (at, &byte) in bytes.iter().enumerate() {
            match (in_string, byte) {
                (true, _) if escaped => escaped = false,
                (true, b'\\') => escaped = true,
                (_, b'"') => in_string = !in_string,
                (false, b'{' | b'[') => depth += 1,
                (false, b'}' | b']') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(at + 1);
            }
        }
        Err(Fault::Truncated)
    }

    proptest! {
        #[test]
        fn blocks_end_where_bytes_do(
            inner in prop::collection::vec(prop::sample::select(br#"{}[]""\\\\ax,:"#.to_vec()), 0..400), before in 0_usize..70,
        ) {
            // A backslash outside a string is no JSON: it is left out, as nothing is promised there.
            let mut bytes = b"[".to_vec();
            let mut in_string = false;
            for byte in inner {
                let escaped = bytes.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1;
                in_string ^= byte == b'"' && !escaped;
                if byte != b'\\' || in_string {
                    bytes.push(byte);
                }
            }
            let whole = [&b" ".repeat(before)[..], &bytes, b"]]]]]]]]}}}}"].concat();
            let wanted = naive(&whole[before..]).map(|end| end + before);
            prop_assert_eq!(skip_value(&whole, before), wanted);
        }
    }

    #[test]
    fn runs_of_backslashes_count_across_blocks() {
        for before in 0..140 {
            for run in 0..140 {
                let text = format!("[\"{}{}\"]\"]", "a".repeat(before), "\\".repeat(run));
                assert_eq!(skip_value(text.as_bytes(), 0), naive(text.as_bytes()), "{before} {run}");
                let string = &text.as_bytes()[1..];
                let end = 2 + before + run + if run % 2 == 0 { 0 } else { 2 };
                assert_eq!(skip_value(string, 0), Ok(end), "{before} {run}");
            }
        }
    }
}
