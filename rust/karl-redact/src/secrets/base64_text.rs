//! Texts in base64, such as a file that a tool printed with `base64`: replaced whole where the text in them has a secret.

use super::secret::{RANK, Secret};

/// Minimum characters of base64: shorter ones have room for a name and a password, or for neither.
const FEWEST: usize = 24;

/// Letters of one step of the search for runs.
const STEP: usize = 64;

/// Characters at the start that are decoded first: most long words are not text in base64.
const PROBE: usize = 16;

/// Lengths of the lines that tools break base64 into.
const LINES: [usize; 4] = [60, 64, 72, 76];

/// Maximum characters of one text.
const LONGEST: usize = 1 << 22;

/// Rank: any form found beside the base64 names it more precisely.
const LAST: usize = RANK + 1;

/// Search of the text in base64.
type Search<'a> = &'a dyn Fn(&str) -> Vec<Secret>;

/// Add the texts in base64 that have a secret, among the runs of a text.
pub(super) fn add(text: &str, runs: &[Run], search: Search<'_>, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    let mut done = 0;
    for &Run { from, to } in runs {
        if from < done {
            continue;
        }
        let lines = lines(bytes, from, to);
        found.extend(starts(bytes, from, to).find_map(|from| secret(text, from, &lines, search)));
        done = lines.last().map_or(to, |line| line.1);
    }
}

/// Letters of base64, of which there are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) from: usize,
    to: usize,
}

impl Run {
    /// Return whether a run in a string of JSON, as it is written, may have a text. One that begins with the digits of an
    /// escape may begin behind them.
    pub(super) fn may_have_text(self, bytes: &[u8]) -> bool {
        let is_escaped = bytes[..self.from].ends_with(b"\\") && bytes[self.from] == b'u';
        is_escaped || starts(bytes, self.from, self.to).next().is_some()
    }
}

/// Search for runs, 64 letters at a time.
pub(super) struct RunFinder<'a> {
    bytes: &'a [u8],
    /// Letters of the previous step, a bit each.
    letters: u64,
    /// End of the last run.
    done: usize,
    runs: Vec<Run>,
}

impl<'a> RunFinder<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, letters: 0, done: 0, runs: Vec::new() }
    }

    /// Take the letters of the step from a position on.
    #[inline]
    pub(super) fn on_letters(&mut self, from: usize, letters: u64) {
        // Bit after bit: whether the 2, 4, 8, 16 and 24 letters from there on are of base64.
        let mut all = u128::from(self.letters) | u128::from(letters) << STEP;
        for by in [1, 2, 4] {
            all &= all >> by;
        }
        let starts = all & all >> 8 & all >> 16 & u128::from(u64::MAX);
        let mut starts = u64::try_from(starts).unwrap_or_default();
        self.letters = letters;
        while starts != 0 {
            let at = from - STEP + starts.trailing_zeros() as usize;
            starts &= starts - 1;
            if at >= self.done {
                self.add(at);
            }
        }
    }

    fn add(&mut self, at: usize) {
        let from = at + escape(self.bytes, at);
        let to = at + self.bytes[at..].iter().take_while(|&&byte| is_base64(byte)).count();
        self.done = to;
        if to - from >= FEWEST {
            self.runs.push(Run { from, to });
        }
    }

    /// Return the runs of the whole text.
    pub(super) fn finish(mut self) -> Vec<Run> {
        self.on_letters(self.bytes.len().next_multiple_of(STEP), 0);
        self.runs
    }
}

/// Return the length of the letter of an escape before a run, the `n` of `\n`.
fn escape(bytes: &[u8], from: usize) -> usize {
    let is_escape =
        from > 0 && bytes[from - 1] == b'\\' && bytes.get(from).is_some_and(|byte| b"nrt".contains(byte));
    usize::from(is_escape)
}

pub(super) fn is_base64(byte: u8) -> bool {
    VALUES[usize::from(byte)] != NONE
}

/// Return the lines of the base64 that begins with a run.
fn lines(bytes: &[u8], from: usize, run: usize) -> Vec<(usize, usize)> {
    let mut lines = vec![(from, run)];
    let width = run - from;
    while LINES.contains(&width) && lines.last().is_some_and(|line| line.1 - line.0 == width) {
        let end = lines[lines.len() - 1].1;
        let rest = &bytes[end..];
        let Some(gap) = ["\r\n", "\n", "\\r\\n", "\\n"].iter().find(|gap| rest.starts_with(gap.as_bytes()))
        else {
            break;
        };
        let next = end + gap.len();
        let length = bytes[next..].iter().take(width + 1).take_while(|&&byte| is_base64(byte)).count();
        if length == 0 || length > width || next - from > LONGEST {
            break;
        }
        lines.push((next, next + length));
    }
    lines
}

/// Return where base64 may begin in a run: at its start, or behind a mark that is also in file names and addresses.
fn starts(bytes: &[u8], from: usize, run: usize) -> impl Iterator<Item = usize> + '_ {
    let near = from..run.min(from + 64);
    let behind =
        near.filter(move |&at| matches!(bytes[at], b'-' | b'_' | b'/' | b'+')).map(|at| at + 1).take(4);
    std::iter::once(from).chain(behind).filter(move |&at| begins_text(&bytes[at..run]))
}

/// Return whether base64 begins with text: of ASCII, or of UTF-16 as PowerShell takes it.
fn begins_text(run: &[u8]) -> bool {
    let Some(probe) = run.first_chunk::<PROBE>() else { return false };
    let mut plain = [0; PROBE / 4 * 3];
    for (bytes, letters) in plain.as_chunks_mut::<3>().0.iter_mut().zip(probe.as_chunks::<4>().0) {
        let bits = letters.iter().fold(0, |bits, &letter| bits << 6 | u32::from(VALUES[usize::from(letter)]));
        let [_, first, second, third] = bits.to_be_bytes();
        *bytes = [first, second, third];
    }
    let is_text = |byte: &u8| (b' '..0x7f).contains(byte) || b"\n\r\t".contains(byte);
    let wide = || plain.chunks(2).all(|pair| is_text(&pair[0]) && pair.get(1).is_none_or(|&high| high == 0));
    // A letter may be cut at the end of the first bytes; other damage would be found once all is decoded.
    let is_valid = || str::from_utf8(&plain).map_or_else(|error| error.error_len().is_none(), |_| true);
    let text = plain.iter().all(|byte| is_text(byte) || *byte >= 0x80) && plain.iter().any(is_text);
    text && is_valid() || wide()
}

/// Return the base64 as one secret, if its text has any.
fn secret(text: &str, from: usize, lines: &[(usize, usize)], search: Search<'_>) -> Option<Secret> {
    let bytes = text.as_bytes();
    let end = lines.last()?.1;
    let joined: Vec<u8> = std::iter::once((from, lines[0].1))
        .chain(lines[1..].iter().copied())
        .flat_map(|(from, to)| bytes[from..to].iter().copied())
        .take(LONGEST)
        .collect();
    let plain = decode(&joined)?;
    let plain = wide(&plain).or_else(|| String::from_utf8(plain).ok())?;
    let inner = search(&plain);
    let family = inner.iter().filter(|one| !one.part).min_by_key(|one| one.rank)?.family;
    Some(Secret::new(from, end + padding(&bytes[end..]), family, LAST))
}

/// Return a text of UTF-16 whose letters are ASCII.
fn wide(plain: &[u8]) -> Option<String> {
    let is_wide = plain.len() >= 4
        && plain.chunks(2).all(|pair| pair[0].is_ascii() && pair.get(1).is_none_or(|&high| high == 0));
    is_wide.then(|| plain.iter().step_by(2).map(|&byte| char::from(byte)).collect())
}

/// Return the length of the padding after base64, in any encoding.
fn padding(rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(mark) = ["=", "%3D", "%3d", "%253D", "\\u003d", "\\u003D"]
        .iter()
        .find(|mark| rest[at..].starts_with(mark.as_bytes()))
    {
        at += mark.len();
    }
    at
}

/// Value of a byte that is no base64.
const NONE: u8 = 64;

/// Value of each byte in base64 of either alphabet.
static VALUES: [u8; 256] = {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < NONE {
        values[letters[value as usize] as usize] = value;
        value += 1;
    }
    values[b'-' as usize] = 62;
    values[b'_' as usize] = 63;
    values
};

/// Decode base64 of either alphabet without its padding, up to the last whole byte.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut held, mut out) = (0_u32, 0, Vec::with_capacity(text.len() * 3 / 4));
    for &byte in text {
        let value = VALUES[usize::from(byte)];
        bits = bits << 6 | u32::from((value != NONE).then_some(value)?);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).unwrap_or_default());
        }
    }
    Some(out)
}
