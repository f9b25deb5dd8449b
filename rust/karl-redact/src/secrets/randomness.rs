//! Detection of random texts and of filler.

/// Return whether a text is filler: `xxxxxxxx`, `********`, `0000`, `YOUR_KEY`.
pub(super) fn is_dull(text: &str) -> bool {
    let bytes = text.as_bytes();
    let body = &bytes[bytes.len().saturating_sub(16)..];
    let mut kinds = [false; 256];
    for &byte in body {
        kinds[byte as usize] = true;
    }
    let runs = |byte: &u8| {
        let run = [*byte; 8];
        memchr::memmem::find(bytes, &run).is_some()
    };
    kinds.iter().filter(|&&kind| kind).count() < 3 || b"xX*".iter().any(runs) || text.contains("YOUR")
}

/// Counts of one text's letters, digits and changes between them.
#[derive(Default)]
pub(super) struct Mix {
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) digits: usize,
    /// ASCII other than letters, digits and `_-./`.
    pub(super) marks: usize,
    /// Digits beside letters.
    pub(super) turns: usize,
    /// Lower-case letters beside capitals.
    pub(super) cases: usize,
    /// Capitals after capitals.
    pub(super) capitals: usize,
}

impl Mix {
    pub(super) fn of(text: &str) -> Self {
        let mut mix = Self::default();
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' => mix.lower += 1,
                b'A'..=b'Z' => mix.upper += 1,
                b'0'..=b'9' => mix.digits += 1,
                // Letters of other scripts are not symbols: `Contraseña` is a word.
                b'_' | b'-' | b'.' | b'/' | 0x80.. => {}
                _ => mix.marks += 1,
            }
        }
        for pair in text.as_bytes().windows(2) {
            let [a, b] = [pair[0], pair[1]];
            if a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric() {
                mix.turns += usize::from(a.is_ascii_digit() != b.is_ascii_digit());
                let letters = a.is_ascii_alphabetic() && b.is_ascii_alphabetic();
                mix.capitals += usize::from(a.is_ascii_uppercase() && b.is_ascii_uppercase());
                mix.cases += usize::from(letters && a.is_ascii_uppercase() != b.is_ascii_uppercase());
            }
        }
        mix
    }

    pub(super) fn letters(&self) -> usize {
        self.lower + self.upper
    }
}

/// Return whether a text looks random: it mixes letters and digits unlike a name.
pub(super) fn is_random(text: &str) -> bool {
    let mix = Mix::of(text);
    let enough = (text.len() / 7).max(3);
    let mixed = mix.turns >= 2 && mix.turns + mix.cases >= enough;
    text.len() >= 10 && !is_dull(text) && mix.letters() > 0 && (mixed || is_jagged(text, &mix))
}

/// Return whether capitals are distributed unlike in a name: many, and adjacent.
pub(super) fn is_jagged(text: &str, mix: &Mix) -> bool {
    mix.cases * 3 >= text.len() && (mix.turns >= 1 || text.len() >= 12 && mix.capitals >= 3)
}
