//! The choice of the inverse temperature: given, or searched for, so that a target spreads over the wanted share of rows, by
//! its effective sample size or by its perplexity, which is `n exp(-KL)`.
//!
//! The result does not depend on the search: it is the smallest double with twelve zero bits at the end and a share
//! of at most the wanted one. Neighbours on that grid are 2^-40 apart (relative), so that their shares differ by more
//! than rounding, and every search that brackets the result ends on the same one.

use super::sums::ScoreScale;
use crate::check::{check_not_negative, check_number};
use crate::error::{Error, Result};

/// Choice of the inverse temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Temperature {
    /// So that the effective sample size is this share of the kept rows, in (0, 1].
    Ess(f64),
    /// So that the divergence KL(target || uniform over the kept rows) is this many nats, from 0 on.
    Kl(f64),
    /// Given: zero or more.
    Inverse(f64),
}

/// Reason for a wanted effective sample size or divergence that was not reached, or for a search that was not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// No row has both a score and a scope.
    NoRows,
    /// All scores are equal: every temperature gives the same weights, and 0 is taken.
    EqualScores,
    /// Scopes of uneven size are already below the share, or beyond the divergence, at inverse temperature 0, where they
    /// are most nearly uniform.
    UnevenScopes,
    /// Too many rows share the top score: the share stays above the wanted one, or the divergence below it. The
    /// result is the smallest inverse temperature with an ESS, or `exp(-KL)`, within a millionth of the least
    /// possible.
    TiesAtTop,
}

impl Note {
    /// Return the name used in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRows => "no_rows",
            Self::EqualScores => "equal_scores",
            Self::UnevenScopes => "uneven_scopes",
            Self::TiesAtTop => "ties_at_top",
        }
    }
}

pub(crate) fn check_temperature(temperature: Temperature) -> Result<()> {
    match temperature {
        Temperature::Ess(share) if share > 0.0 && share <= 1.0 => Ok(()),
        Temperature::Ess(value) => Err(Error::Fraction { what: "ess", value }),
        Temperature::Kl(nats) => check_not_negative("kl", nats).and_then(|()| check_number("kl", nats)),
        Temperature::Inverse(value) => check_not_negative("inverse_temperature", value)
            .and_then(|()| check_number("inverse_temperature", value)),
    }
}

pub(super) fn check_inverse_temperature(index: usize, value: f64) -> Result<()> {
    if value == f64::INFINITY {
        return Err(Error::NotFinite { what: "inverse_temperature", index, value });
    }
    check_not_negative("inverse_temperature", value)
}

/// Scores are apart by at least this share of their spread, or are treated as one.
const CAP: f64 = 1e4;

/// Relative distance from the least possible ESS that counts as reached.
const NEAR: f64 = 1e-6;

/// Bits of a double that the grid leaves out.
const COARSE: u32 = 12;

/// Return the inverse temperature for a wanted share, and what stood in the way.
///
/// `share` falls from a most at b = 0, no faster than `exp(-b spread)`: the effective sample size of the kept rows, or
/// `exp(-KL)`.
pub(super) fn solve(scale: &ScoreScale<'_>, wanted: f64, share: impl Fn(f64) -> f64) -> (f64, Option<Note>) {
    if scale.kept == 0 {
        return (0.0, Some(Note::NoRows));
    }
    if scale.spread <= 0.0 {
        return (0.0, Some(Note::EqualScores));
    }
    let uniform = share(0.0);
    if uniform <= wanted {
        return (0.0, (uniform < wanted).then_some(Note::UnevenScopes));
    }
    let cap = value(place((CAP / scale.spread).min(f64::MAX)));
    let least = share(cap);
    let (wanted, note) =
        if least > wanted { (least * (1.0 + NEAR), Some(Note::TiesAtTop)) } else { (wanted, None) };
    if uniform <= wanted {
        return (0.0, note);
    }
    (search_smallest(&Search { uniform, wanted }, cap, scale.spread, share), note)
}

/// A place on the grid: the nonnegative doubles in their order, `COARSE` bits at a time.
type Place = u64;

fn value(place: Place) -> f64 {
    f64::from_bits(place << COARSE)
}

fn place(value: f64) -> Place {
    value.to_bits() >> COARSE
}

/// Return the smallest place on the grid with a share of at most `wanted`, as a double. The share is `uniform`, which
/// is more, at 0, and no more than wanted at `cap`.
///
/// Cost: about ten evaluations; thirty where ties at the top flatten the end of the curve.
fn search_smallest(search: &Search, cap: f64, spread: f64, share: impl Fn(f64) -> f64) -> f64 {
    // No weight is more than exp(b spread) times another, so either share is at least uniform * exp(-b spread).
    let first = libm::log(search.uniform / search.wanted) / spread * (1.0 - NEAR);
    let mut bracket = Bracket { low: place(first), high: place(cap), raised: false };
    let mut known: Vec<(f64, f64)> = Vec::new();
    let mut slow = 0;
    while bracket.width() > 1 {
        let next = bracket.step_within(if slow < PATIENCE { search.step(&known, &bracket) } else { None });
        let (before, reached) = (bracket.width(), share(value(next)));
        bracket.narrow(next, reached > search.wanted);
        if reached < search.uniform {
            known.push((libm::log(value(next)), search.log_log_fall(reached)));
        }
        slow = if bracket.width() <= before / 2 || slow >= PATIENCE { 0 } else { slow + 1 };
    }
    value(bracket.high)
}

/// So many steps in a row may fail to halve the bracket before its middle is tried.
const PATIENCE: u32 = 3;

/// A step this short in ln b is nearly the last, and its error nearly its square.
const NEARLY: f64 = 1e-4;

/// A bracket of the answer: the share is above the wanted one at `low`, and not at `high`.
struct Bracket {
    low: Place,
    high: Place,
    /// True if the last step raised the low end.
    raised: bool,
}

impl Bracket {
    fn width(&self) -> u64 {
        self.high - self.low
    }

    fn narrow(&mut self, at: Place, above: bool) {
        self.raised = above;
        if above { self.low = at } else { self.high = at }
    }

    /// Return a step that is inside, or the middle; in places, which is in the exponent while the bracket is wide.
    fn step_within(&self, step: Option<Place>) -> Place {
        match step {
            Some(step) if step > self.low && step < self.high => step,
            Some(step) if self.width() <= 64 => {
                if step <= self.low {
                    self.low + 1
                } else {
                    self.high - 1
                }
            }
            _ => self.low + self.width() / 2,
        }
    }
}

/// Goal of a search.
struct Search {
    uniform: f64,
    wanted: f64,
}

impl Search {
    /// Nearly a line in ln b, with slope 2 for small b: there the share falls as `exp(-b^2 var)`.
    fn log_log_fall(&self, share: f64) -> f64 {
        libm::log(-libm::log(share / self.uniform))
    }

    /// Return the place where the line through the two latest points meets the goal, or a little past it, so that the
    /// bracket closes from both sides.
    fn step(&self, known: &[(f64, f64)], bracket: &Bracket) -> Option<Place> {
        let Some(&(x, y)) = known.last() else { return Some(place(4.0 * value(bracket.low))) };
        let slope = match known {
            [.., (x0, y0), _] if (x - x0).abs() > 0.0 => (y - y0) / (x - x0),
            _ => 2.0,
        };
        let by = (self.log_log_fall(self.wanted) - y) / slope;
        let there = libm::exp(x + by);
        if slope <= 0.0 || !there.is_finite() {
            return None;
        }
        let error = if by.abs() < NEARLY { by * by * (1_u64 << (52 - COARSE)) as f64 + 1.0 } else { 0.0 };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 10^4")]
        let past = error as u64;
        Some(if bracket.raised {
            place(there).saturating_add(past)
        } else {
            place(there).saturating_sub(past)
        })
    }
}
