//! Search for the end of a value by structure alone: the closing quote of a string, the depth of a container.
//!
//! Nothing between the tokens is validated here; see [`super`] for the validation.

use memchr::memchr2;

use super::container;
use super::fault::{ScanFault, ScanResult};
use crate::json::simd::{ENDS, Lanes, Portable};

/// Return the first position from `at` on that is not JSON white space.
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Return the position after the value that begins at `at`.
pub(crate) fn skip_value(bytes: &[u8], at: usize) -> ScanResult<usize> {
    match bytes.get(at) {
        Some(b'{' | b'[') => container::end(&bytes[at..]).map(|end| at + end).ok_or(ScanFault::Truncated),
        _ => value(bytes, at, Portable),
    }
}

/// Return the same with the given vectors.
#[inline(always)]
pub(super) fn value(bytes: &[u8], at: usize, lanes: impl Lanes) -> ScanResult<usize> {
    match bytes.get(at) {
        None => Err(ScanFault::Truncated),
        Some(b'"') => match lanes.string(&bytes[at + 1..]) {
            Some(length) => Ok(at + 2 + length),
            None => long_string(bytes, at).map(|(end, _)| end),
        },
        Some(b'{' | b'[') => {
            container::end_by(&bytes[at..], lanes).map(|end| at + end).ok_or(ScanFault::Truncated)
        }
        Some(_) => scalar(bytes, at, lanes),
    }
}

/// Return the end of a number or word: the next `,`, `}`, `]` or white space. Most are short.
#[inline(always)]
fn scalar(bytes: &[u8], at: usize, lanes: impl Lanes) -> ScanResult<usize> {
    match lanes.scalar(&bytes[at..]) {
        Some(length) if length > 0 => Ok(at + length),
        _ => long_scalar(bytes, at),
    }
}

#[inline(never)]
fn long_scalar(bytes: &[u8], at: usize) -> ScanResult<usize> {
    match bytes[at..].iter().position(|byte| ENDS.contains(byte)) {
        None => Err(ScanFault::Truncated),
        Some(0) => Err(ScanFault::Malformed(at)),
        Some(length) => Ok(at + length),
    }
}

/// Return the position after the string that opens at `at`.
pub(crate) fn skip_string(bytes: &[u8], at: usize) -> ScanResult<usize> {
    string(bytes, at).map(|(end, _)| end)
}

/// Return the same, and whether the string has an escape.
pub(super) fn string(bytes: &[u8], at: usize) -> ScanResult<(usize, bool)> {
    match Portable.string(bytes.get(at + 1..).unwrap_or_default()) {
        Some(length) => Ok((at + 2 + length, false)),
        None => long_string(bytes, at),
    }
}

#[inline(never)]
fn long_string(bytes: &[u8], at: usize) -> ScanResult<(usize, bool)> {
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
    Err(ScanFault::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Return the end of a container, byte by byte.
    fn naive(bytes: &[u8]) -> ScanResult<usize> {
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
        Err(ScanFault::Truncated)
    }

    proptest! {
        #[test]
        fn blocks_end_where_bytes_do(
            inner in prop::collection::vec(prop::sample::select(br#"{}[]""\\\\ax,:"#.to_vec()), 0..400), before in 0_usize..70,
        ) {
            // A backslash outside a string is not valid JSON: left out, because the result is undefined
            // there.
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
