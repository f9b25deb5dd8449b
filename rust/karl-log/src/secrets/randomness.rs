//! Texts that look drawn at random, and texts that are filler.

/// Whether a text is filler: `xxxxxxxx`, `********`, `0000`, `YOUR_KEY`.
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
    /// ASCII that is neither a letter, a digit nor one of `_-./`.
    pub(super) marks: usize,
    /// A digit beside a letter.
    pub(super) turns: usize,
    /// A small letter before a capital or behind one.
    pub(super) cases: usize,
    /// A capital behind a capital.
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
                // Letters of other scripts are no marks: `Contraseña` is a word.
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

/// Whether a text looks drawn at random: letters and digits mixed as no name mixes them.
pub(super) fn is_random(text: &str) -> bool {
    let mix = Mix::of(text);
    let enough = (text.len() / 7).max(3);
    let mixed = mix.turns >= 2 && mix.turns + mix.cases >= enough;
    text.len() >= 10 && !is_dull(text) && mix.letters() > 0 && (mixed || is_jagged(text, &mix))
}

/// Whether capitals stand in a text as in no name: often, and side by side.
pub(super) fn is_jagged(text: &str, mix: &Mix) -> bool {
    mix.cases * 3 >= text.len() && (mix.turns >= 1 || text.len() >= 12 && mix.capitals >= 3)
}
