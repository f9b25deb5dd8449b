//! The choice of the next token of each row of logits, with the bits of MLX's keyed noise.
//!
//! ```text
//! logp  = s logits - logsumexp(s logits)         s = 1 / T
//! token = argmax(logp + g)                       g = -log(-log u), u by Threefry of the row's key
//! ```
//!
//! `mlx.random.gumbel` computes the noise of every token: one block of Threefry for two of them and two logarithms for
//! each. Here a token's logarithms are computed only where it may win, of which there are a handful in a row:
//!
//! ```text
//! g <= 16.64 for 24-bit u                        so a token 16.64 below the best one so far is passed over at once
//! -log u >= 1 - u                                so logp + g > best only if 1 - u < exp(logp - best)
//! ```
//!
//! Both bounds have room for rounding, so the token is that of the whole argmax: the draw is exact and its stream is
//! MLX's. Only an lse that rounds to another f32 can make a difference, where two tokens tie to seven digits. Rejected: an
//! inverse of the cumulative distribution, which costs less still and draws other tokens from the same seed.
//!
//! Speed: three reads of the row, with one vectorised `exp` a token. Reference: Salmon et al. 2011 (Threefry); Gumbel
//! 1954.

use crate::check::check_length;
use crate::error::{Error, Result};
use crate::numeric::exp::{exp_f32, ln};
use crate::numeric::parallel::in_parts;
use crate::numeric::simd::{Kernel, wide};

/// Tokens side by side: one register of 512 bits.
const WIDE: usize = 16;

/// Tokens whose sums are kept in f32, before they are added in f64.
const BLOCK: usize = 1024;

/// Least logarithm of a probability relative to the largest that is told from 0: its `exp` is a normal number.
const LEAST: f32 = -87.0;

/// The largest uniform that MLX draws, one step below 1.
const LARGEST: f32 = 1.0 - f32::EPSILON / 2.0;

/// More than any noise: `-log(-log(LARGEST))` is 16.6355.
const MOST_NOISE: f32 = 16.64;

/// Room for rounding in the test of a uniform, of 1e-6 in exponents up to a hundred.
const ROOM: f32 = 1.001;

/// Rows times tokens below which a second thread costs more than it saves.
const ALONE: usize = 1 << 16;

/// Choice of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenChoice {
    /// Its place in the vocabulary.
    pub token: u32,
    /// Its log-probability.
    pub logp: f32,
    /// Entropy of the distribution that it was drawn from, in nats.
    pub entropy: f32,
}

/// Choose a token for each row of logits, with the noise of the row's key; without keys the likeliest one, the first of
/// several.
///
/// A row without a finite maximum or with NaN has token 0, and NaN for the rest. Shapes: `logits` `[B, V]`, `keys` `[B]`.
///
/// ```
/// use karl_core::sample::token::choose_tokens;
/// let choice = choose_tokens(&[0.0, 3.0_f32.ln()], 2, 1.0, None, 1)?[0];
/// assert_eq!(choice.token, 1);
/// assert!((choice.logp - 0.75_f32.ln()).abs() < 1e-6);
/// # Ok::<(), karl_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::Length`] for logits that are not whole rows, or not as many rows as keys; [`Error::Positive`] for no
/// vocabulary.
pub fn choose_tokens(
    logits: &[f32],
    vocabulary: usize,
    scale: f32,
    keys: Option<&[u64]>,
    threads: usize,
) -> Result<Vec<TokenChoice>> {
    if vocabulary == 0 {
        return Err(Error::Positive { what: "vocabulary", value: 0.0 });
    }
    let rows = keys.map_or(logits.len() / vocabulary, <[u64]>::len);
    check_length("logits", logits.len(), rows * vocabulary)?;
    let threads = if logits.len() < ALONE { 1 } else { threads };
    let choose = |rows: std::ops::Range<usize>| -> Vec<TokenChoice> {
        let row = |row: usize| Row { logits: &logits[row * vocabulary..(row + 1) * vocabulary], scale };
        rows.map(|at| row(at).choose(keys.map(|keys| keys[at]))).collect()
    };
    Ok(in_parts(rows, threads, choose).concat())
}

/// One row of logits.
#[derive(Clone, Copy)]
struct Row<'a> {
    logits: &'a [f32],
    scale: f32,
}

impl Row<'_> {
    fn choose(self, key: Option<u64>) -> TokenChoice {
        let max = wide(Max(self));
        let (sum, moment) = wide(Sums { row: self, max });
        let log = ln(sum);
        #[allow(clippy::cast_possible_truncation, reason = "f32 are what is returned")]
        let (lse, entropy) = ((f64::from(max) + log) as f32, (log - moment / sum) as f32);
        if !lse.is_finite() {
            return TokenChoice { token: 0, logp: f32::NAN, entropy: f32::NAN };
        }
        let likeliest =
            self.logits.iter().position(|&logit| logit * self.scale - lse >= max - lse).unwrap_or(0);
        let token = match key {
            None => likeliest,
            Some(key) => {
                let mut race = Race::new(self, lse, key);
                race.enter(likeliest);
                wide(&mut race);
                race.winner
            }
        };
        #[allow(clippy::cast_possible_truncation, reason = "a vocabulary has fewer than 2^32 tokens")]
        TokenChoice { token: token as u32, logp: self.logits[token] * self.scale - lse, entropy }
    }
}

/// Maximum of a row; NaN is passed over, and noticed by the sums.
struct Max<'a>(Row<'a>);

impl Kernel for Max<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        let (chunks, rest) = self.0.logits.as_chunks::<{ 4 * WIDE }>();
        let mut lanes = [f32::NEG_INFINITY; 4 * WIDE];
        for chunk in chunks {
            for lane in 0..4 * WIDE {
                let x = chunk[lane] * self.0.scale;
                lanes[lane] = if x > lanes[lane] { x } else { lanes[lane] };
            }
        }
        let all = lanes.into_iter().chain(rest.iter().map(|&logit| logit * self.0.scale));
        all.fold(f32::NEG_INFINITY, |most, x| if x > most { x } else { most })
    }
}

/// Sums over a row of `e^d` and of `d e^d`, with d the distance from the maximum.
struct Sums<'a> {
    row: Row<'a>,
    max: f32,
}

impl Kernel for Sums<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    fn run(self) -> (f64, f64) {
        let (mut sum, mut moment) = (0.0, 0.0);
        for block in self.row.logits.chunks(BLOCK) {
            let (chunks, rest) = block.as_chunks::<WIDE>();
            let (mut sums, mut moments) = ([0.0_f32; WIDE], [0.0_f32; WIDE]);
            for chunk in chunks {
                for lane in 0..WIDE {
                    let (term, distance) = self.term(chunk[lane]);
                    sums[lane] += term;
                    moments[lane] += distance * term;
                }
            }
            for (lane, &logit) in rest.iter().enumerate() {
                let (term, distance) = self.term(logit);
                sums[lane] += term;
                moments[lane] += distance * term;
            }
            for lane in 0..WIDE {
                sum += f64::from(sums[lane]);
                moment += f64::from(moments[lane]);
            }
        }
        (sum, moment)
    }
}

impl Sums<'_> {
    #[inline(always)]
    fn term(&self, logit: f32) -> (f32, f32) {
        let far = logit * self.row.scale - self.max;
        let distance = if far < LEAST { LEAST } else { far }; // of NaN is NaN
        (exp_f32(distance), distance)
    }
}

/// Search for the token of the largest `logp + g`, the first of several.
struct Race<'a> {
    row: Row<'a>,
    lse: f32,
    key: [u32; 3],
    best: f32,
    winner: usize,
}

impl<'a> Race<'a> {
    fn new(row: Row<'a>, lse: f32, key: u64) -> Self {
        #[allow(clippy::cast_possible_truncation, reason = "the two words of a key")]
        let words = [key as u32, (key >> 32) as u32];
        Self {
            row,
            lse,
            key: [words[0], words[1], words[0] ^ words[1] ^ PARITY],
            best: f32::NEG_INFINITY,
            winner: 0,
        }
    }

    /// The second half of a row begins here: a block of Threefry has the noise of a token of each half, and in a row of
    /// an odd size the one between has a block of its own.
    fn second_half(&self) -> usize {
        self.row.logits.len().div_ceil(2)
    }

    /// Compute the noise of one token, and keep it if it leads.
    #[inline(never)]
    fn enter(&mut self, token: usize) {
        let bits = self.bits(token);
        #[allow(clippy::cast_possible_truncation, reason = "MLX's noise is f32")]
        let log = |x: f32| ln(f64::from(x)) as f32;
        let score = self.logp(self.row.logits[token]) - log(-log(uniform(bits)));
        #[allow(clippy::float_cmp, reason = "the first of equal ones wins, as in an argmax")]
        if score > self.best || (score == self.best && token < self.winner) {
            (self.best, self.winner) = (score, token);
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "a vocabulary has fewer than 2^32 tokens")]
    fn bits(&self, token: usize) -> u32 {
        let (half, second) = (self.row.logits.len() / 2, self.second_half());
        if token < half {
            threefry(self.key, token as u32, (token + second) as u32).0
        } else if token < second {
            threefry(self.key, token as u32, 0).0
        } else {
            threefry(self.key, (token - second) as u32, token as u32).1
        }
    }

    /// Let in the tokens of two chunks that may win.
    #[inline(always)]
    fn look(&mut self, start: usize, first: &[f32; WIDE], second: &[f32; WIDE]) {
        let least = self.best - MOST_NOISE;
        let mut near = false;
        for lane in 0..WIDE {
            near |= self.logp(first[lane]) >= least;
            near |= self.logp(second[lane]) >= least;
        }
        if !near {
            return;
        }
        let (mut left, mut right) = ([0_u32; WIDE], [0_u32; WIDE]);
        #[allow(clippy::cast_possible_truncation, reason = "a vocabulary has fewer than 2^32 tokens")]
        let (at, other) = (start as u32, (start + self.second_half()) as u32);
        for lane in 0..WIDE {
            #[allow(clippy::cast_possible_truncation, reason = "below 16")]
            let counter = lane as u32;
            (left[lane], right[lane]) = threefry(self.key, at + counter, other + counter);
        }
        for (bits, logits, start) in [(left, first, start), (right, second, start + self.second_half())] {
            let mut may = [false; WIDE];
            for lane in 0..WIDE {
                let weight = exp_f32(self.logp(logits[lane]) - self.best);
                may[lane] = 1.0 - uniform(bits[lane]) <= ROOM * weight;
            }
            if may.contains(&true) {
                for (token, _) in (start..).zip(may).filter(|&(_, may)| may) {
                    self.enter(token);
                }
            }
        }
    }

    #[inline(always)]
    fn logp(&self, logit: f32) -> f32 {
        logit * self.row.scale - self.lse
    }
}

impl Kernel for &mut Race<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (half, second) = (self.row.logits.len() / 2, self.second_half());
        let (chunks, rest) = self.row.logits[..half].as_chunks::<WIDE>();
        let others = self.row.logits[second..].as_chunks::<WIDE>().0;
        for (number, (first, other)) in chunks.iter().zip(others).enumerate() {
            self.look(number * WIDE, first, other);
        }
        for token in (half - rest.len()..second).chain(second + half - rest.len()..second + half) {
            if self.logp(self.row.logits[token]) >= self.best - MOST_NOISE {
                self.enter(token);
            }
        }
    }
}

/// Return the uniform of 32 bits as MLX makes it, in (0, 1) but for bits of 0.
#[inline(always)]
fn uniform(bits: u32) -> f32 {
    let uniform = bits as f32 / u32::MAX as f32;
    if uniform < LARGEST { uniform } else { LARGEST }
}

/// Word of the key schedule, of Skein.
const PARITY: u32 = 0x1bd1_1bda;

/// Rotations of Threefry-2x32, of even and of odd rounds of four.
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// Threefry-2x32 of 20 rounds, the third word of the key being the parity of both.
#[inline(always)]
fn threefry(key: [u32; 3], first: u32, second: u32) -> (u32, u32) {
    let (mut a, mut b) = (first.wrapping_add(key[0]), second.wrapping_add(key[1]));
    for round in 0..5_usize {
        for rotation in ROTATIONS[round % 2] {
            a = a.wrapping_add(b);
            b = b.rotate_left(rotation) ^ a;
        }
        #[allow(clippy::cast_possible_truncation, reason = "up to 5")]
        let injected = round as u32 + 1;
        a = a.wrapping_add(key[(round + 1) % 3]);
        b = b.wrapping_add(key[(round + 2) % 3]).wrapping_add(injected);
    }
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Random123 for Threefry-2x32 of 20 rounds.
    #[test]
    fn threefry_has_the_published_vectors() {
        let of = |key: [u32; 2], a, b| threefry([key[0], key[1], key[0] ^ key[1] ^ PARITY], a, b);
        assert_eq!(of([0, 0], 0, 0), (0x6b20_0159, 0x99ba_4efe));
        assert_eq!(of([u32::MAX; 2], u32::MAX, u32::MAX), (0x1cb9_96fc, 0xbb00_2be7));
        assert_eq!(of([0x1319_8a2e, 0x0370_7344], 0x243f_6a88, 0x85a3_08d3), (0xc492_3a9c, 0x483d_f7a0));
    }

    /// The choice is the argmax over the noise of every token, on flat rows, peaked ones, and any size.
    #[test]
    fn nothing_that_wins_is_passed_over() {
        for (vocabulary, spread) in
            [(1, 1.0), (2, 1.0), (31, 3.0), (257, 0.0), (1000, 9.0), (4099, 0.5), (4096, 30.0)]
        {
            let logits: Vec<f32> =
                (0..vocabulary).map(|token| spread * uniform(threefry([1, 2, 3], token, 7).0)).collect();
            let row = Row { logits: &logits, scale: 1.25 };
            for key in 0..40_u64 {
                let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let choice = row.choose(Some(key));
                let lse = logits[choice.token as usize] * 1.25 - choice.logp;
                let mut all = Race::new(row, lse, key);
                (0..logits.len()).for_each(|token| all.enter(token));
                assert_eq!(choice.token as usize, all.winner, "{vocabulary} {spread} {key}");
            }
        }
    }

    #[test]
    fn masked_and_missing_logits_are_never_drawn_silently() {
        let inf = f32::INFINITY;
        let keys = [1, 2, 3];
        let rows = [-inf, 0.0, -inf, f32::NAN, 0.0, 1.0, -inf, -inf, -inf];
        let choices = choose_tokens(&rows, 3, 1.0, Some(&keys), 1).unwrap();
        assert_eq!((choices[0].token, choices[0].logp), (1, 0.0));
        assert!(choices[0].entropy.abs() < 1e-6);
        assert!(choices[1].logp.is_nan() && choices[2].logp.is_nan() && choices[2].token == 0);
        assert!(
            choose_tokens(&rows, 4, 1.0, None, 1).is_err() && choose_tokens(&rows, 0, 1.0, None, 1).is_err()
        );
    }
}
