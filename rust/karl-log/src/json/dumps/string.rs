//! Strings: ASCII alone, with Python's escapes.

use super::walk::{DumpsResult, Refused, Walk};
use crate::json::unescape::unit;

impl Walk<'_, '_> {
    /// Walk over a string.
    pub(super) fn string(&mut self) -> DumpsResult {
        self.at += 1;
        loop {
            self.at += plain(&self.bytes[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0x7f..) => self.beyond(),
                _ => return Err(Refused::Invalid),
            }
        }
    }

    fn escape(&mut self) -> DumpsResult {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'/') => self.put(self.at + 2, b"/"),
            Some(b'u') => self.unit()?,
            _ => return Err(Refused::Invalid),
        }
        Ok(())
    }

    /// Walk over `\uXXXX`. The second half of a pair is the next one, and is written alike.
    fn unit(&mut self) -> DumpsResult {
        let unit = unit(self.bytes, self.at + 1).ok_or(Refused::Invalid)?;
        let (bytes, length) = written(unit);
        self.put(self.at + 6, &bytes[..length]);
        Ok(())
    }

    /// Walk over a character that is not ASCII, or is the delete character.
    fn beyond(&mut self) {
        let Some(char) = self.text.get(self.at..).and_then(|rest| rest.chars().next()) else { return };
        let end = self.at + char.len_utf8();
        let mut escaped = [0; 12];
        let mut length = 0;
        for unit in char.encode_utf16(&mut [0; 2]) {
            escaped[length..length + 6].copy_from_slice(&hexadecimal((*unit).into()));
            length += 6;
        }
        self.put(end, &escaped[..length]);
    }
}

/// Return the bytes of a code unit in a string, and their number.
#[allow(clippy::cast_possible_truncation, reason = "the unit is ASCII")]
fn written(unit: u32) -> ([u8; 6], usize) {
    let short = |letter| ([b'\\', letter, 0, 0, 0, 0], 2);
    match unit {
        0x08 => short(b'b'),
        0x09 => short(b't'),
        0x0a => short(b'n'),
        0x0c => short(b'f'),
        0x0d => short(b'r'),
        0x22 | 0x5c => short(unit as u8),
        0x20..=0x7e => ([unit as u8, 0, 0, 0, 0, 0], 1),
        _ => (hexadecimal(unit), 6),
    }
}

/// Return `\uXXXX`.
fn hexadecimal(unit: u32) -> [u8; 6] {
    let digit = |shift: u32| b"0123456789abcdef"[(unit >> shift & 15) as usize];
    [b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]
}

/// Return the number of bytes before a quote, a backslash, or a character that is written as an escape: eight at a time.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    const EACH: u64 = u64::MAX / 0xff;
    // The high bit of each byte that ends the run. A carry can only set bits after the first one, which alone counts.
    let ends = |word: u64| {
        let is = |byte: u64| {
            let other = word ^ (EACH * byte);
            other.wrapping_sub(EACH) & !other
        };
        let control = word.wrapping_sub(EACH * 0x20) & !word;
        let beyond = word | word.wrapping_add(EACH);
        (is(0x22) | is(0x5c) | control | beyond) & (EACH * 0x80)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let found = ends(u64::from_le_bytes(*word));
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &&u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
    words.len() * 8 + rest.iter().take_while(is_plain).count()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_run_ends_at_any_byte_that_is_not_plain_wherever_it_is() {
        for byte in 0..=u8::MAX {
            let ends = !(0x20..=0x7e).contains(&byte) || byte == b'"' || byte == b'\\';
            for (length, at) in (1..28).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let mut bytes = vec![b'~'; length];
                bytes[at..].fill(byte);
                assert_eq!(plain(&bytes), if ends { at } else { length }, "{byte} at {at} of {length}");
            }
        }
    }
}
