//! Bytes of a sign that are the rarest in rows of agents: a search looks for them first.

/// Bytes of a sign that are looked at first.
pub(super) const WIDTH: usize = 3;

/// Return the position of the three bytes of a sign that are the rarest in texts of agents.
pub(super) fn rarest(sign: &[u8]) -> usize {
    let cost = |at: &usize| sign[*at..*at + WIDTH].iter().map(|&byte| frequency(byte)).product::<u32>();
    (0..=sign.len().saturating_sub(WIDTH)).filter(|at| at + WIDTH <= sign.len()).min_by_key(cost).unwrap_or(0)
}

/// Return about how many of a thousand bytes are this one, in rows of agents that write English and code as JSON.
pub(super) const fn frequency(byte: u8) -> u32 {
    /// From `a` on.
    #[rustfmt::skip]
    const LETTERS: [u32; 26] = [
        52, 10, 26, 24, 76, 16, 14, 20, 50, 2, 6, 30, 20, 47, 48, 20, 1, 46, 46, 62, 20, 8, 9, 6, 11, 2,
    ];
    match byte {
        b'a'..=b'z' => LETTERS[(byte - b'a') as usize],
        b' ' => 130,
        b'"' => 40,
        b'\\' => 24,
        b'_' | b'-' | b'/' | b'.' | b',' | b':' => 12,
        b'=' | b'(' | b')' | b'\'' => 10,
        b'0'..=b'9' => 8,
        b'A'..=b'Z' => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rarest_bytes_of_a_sign_are_taken() {
        assert_eq!(rarest(b"attempt_key"), 6);
        assert_eq!(rarest(b"GOCSPX-"), 0);
        assert_eq!(rarest(b"s."), 0);
    }
}
