//! Numbers: integers by their digits, floats by `repr`.

use super::float::push_float;
use super::walk::{DumpsResult, Refused, Walk};

/// Digits of an integer that Python always reads; it may be set to refuse more.
const DIGITS: usize = 640;

impl Walk<'_, '_> {
    /// Walk over a number.
    pub(super) fn number(&mut self) -> DumpsResult {
        let start = self.at + usize::from(self.peek() == Some(b'-'));
        let point = self.digits(start);
        if point == start || (point > start + 1 && self.bytes[start] == b'0') {
            return Err(Refused::Invalid);
        }
        let fraction = self.after(point, b'.')?;
        let power = self.power(fraction)?;
        if power > point {
            return self.float(start, point, fraction, power);
        }
        if point - start > DIGITS {
            return Err(Refused::Python);
        }
        if self.bytes[self.at..point] == *b"-0" {
            self.put(point, b"0");
        } else {
            self.at = point;
        }
        Ok(())
    }

    /// Return the end of the digits from a position on.
    #[inline]
    fn digits(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// Return the end of the digits after a sign, if it is there.
    #[inline]
    fn after(&self, at: usize, sign: u8) -> DumpsResult<usize> {
        if self.bytes.get(at) != Some(&sign) {
            return Ok(at);
        }
        let end = self.digits(at + 1);
        if end > at + 1 { Ok(end) } else { Err(Refused::Invalid) }
    }

    #[inline]
    fn power(&self, at: usize) -> DumpsResult<usize> {
        if !matches!(self.bytes.get(at), Some(b'e' | b'E')) {
            return Ok(at);
        }
        let from = at + 1 + usize::from(matches!(self.bytes.get(at + 1), Some(b'+' | b'-')));
        let end = self.digits(from);
        if end > from { Ok(end) } else { Err(Refused::Invalid) }
    }

    fn float(&mut self, start: usize, point: usize, fraction: usize, end: usize) -> DumpsResult {
        let bytes = self.bytes;
        if fraction == end && is_repr(&bytes[start..point], &bytes[point + 1..end]) {
            self.at = end;
            return Ok(());
        }
        let value: f64 =
            self.text.get(self.at..end).and_then(|text| text.parse().ok()).ok_or(Refused::Invalid)?;
        let mut text = Vec::with_capacity(24);
        push_float(&mut text, value);
        self.put(end, &text);
        Ok(())
    }
}

/// Return whether a decimal number is its own `repr`. Up to fifteen significant digits no two decimals share a float, so
/// none is shorter; a last zero and an exponent have to be ruled out.
fn is_repr(whole: &[u8], fraction: &[u8]) -> bool {
    let significant = if whole == b"0" { fraction.len() } else { whole.len() + fraction.len() };
    let last = fraction == b"0" || fraction.last() != Some(&b'0');
    let tiny = whole == b"0" && fraction.len() > 4 && fraction.starts_with(b"0000");
    significant <= 15 && last && !tiny
}
