//! Text of a tool around each line of a file: `id_rsa:2:`, a time, `{"log":"...","stream":"stdout"}`.

/// Maximum length.
const LONGEST: usize = 240;

/// Text before and after a line; its numbers and spaces may differ between lines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineFrame<'a> {
    lead: &'a str,
    tail: &'a str,
}

impl<'a> LineFrame<'a> {
    /// Return the text around the part between two positions, in its line.
    pub(super) fn around(text: &'a str, from: usize, to: usize) -> Self {
        let before = text[..from].bytes().rev().take(LONGEST + 1).take_while(|&byte| byte != b'\n').count();
        let lead = if before > LONGEST { "" } else { text.get(from - before..from).unwrap_or_default() };
        let lead = lead.rsplit("\\n").next().unwrap_or(lead);
        let behind = text[to..].bytes().take(LONGEST + 1).take_while(|&byte| byte != b'\n').count();
        let tail = if behind > LONGEST { "" } else { text[to..to + behind].trim_end_matches('\r') };
        // Numbers and words alone do not end a line: they may be part of the key.
        let marked = tail.bytes().any(|byte| b"\"'|>".contains(&byte)) && !tail.contains("--");
        let whole = marked && !tail.split(|letter: char| !is_base64(letter)).any(|word| word.len() >= 40);
        Self { lead, tail: if whole { tail } else { "" } }
    }

    /// Return the length of the text before the line at the start of a text.
    pub(super) fn lead_of(&self, text: &str) -> Option<usize> {
        // The first line may have more before it: a prompt, or words.
        let word =
            self.lead.rsplit([' ', '\t']).next().filter(|word| word.ends_with([':', '|', '"', '\'', ']']));
        let mut forms = [Some(self.lead), word].into_iter().flatten().filter(|form| !form.trim().is_empty());
        forms.find_map(|form| matched(form, text))
    }

    /// Return the length of the text after a line, if a text begins with it.
    pub(super) fn tail_of(&self, text: &str) -> Option<usize> {
        if self.tail.is_empty() { None } else { matched(self.tail, text) }
    }
}

fn is_base64(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+/=".contains(letter)
}

/// Return the length of the start of a text that equals a form up to its numbers, its spaces, and `:` for
/// `-`.
fn matched(form: &str, text: &str) -> Option<usize> {
    let (form, text) = (form.as_bytes(), text.as_bytes());
    let (mut of, mut at) = (0, 0);
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let spaces = |bytes: &[u8]| bytes.iter().take_while(|byte| b" \t".contains(byte)).count();
    while of < form.len() {
        let (blank, gap) = (spaces(&form[of..]), spaces(&text[at..]));
        if blank > 0 || gap > 0 {
            (of, at) = (of + blank, at + gap);
            continue;
        }
        let (byte, other) = (form[of], *text.get(at)?);
        if byte.is_ascii_digit() && other.is_ascii_digit() {
            (of, at) = (of + digits(&form[of..]), at + digits(&text[at..]));
        } else if byte == other || b":-".contains(&byte) && b":-".contains(&other) {
            (of, at) = (of + 1, at + 1);
        } else {
            return None;
        }
    }
    Some(at)
}
