//! The rows that a target sees, and the sums of exponentials over each scope of them, at any inverse temperature: log Z, the
//! effective sample size and the divergence from uniform are made of these.

use std::ops::Range;

use crate::check::{check_length, check_none_infinite};
use crate::error::{Error, Result};
use crate::filter::Verdict;
use crate::group::{Scope, Scopes};
use crate::numeric::exact::{Share, Shares};
use crate::numeric::exp::exp;
use crate::numeric::parallel;
use crate::numeric::simd::{Kernel, SIDE, wide};

/// Rows that take part in a target: those that have a score, that no rule has dropped, and that are in a scope.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Score that is tempered; NaN where there is none. `[B]`
    pub scores: &'a [f64],
    /// Verdict on each row; empty where no rule was applied. `[B]`
    pub verdicts: &'a [Verdict],
    /// Scopes that are normalised together.
    pub scopes: Scopes<'a>,
}

impl<'a> Rows<'a> {
    /// Rows to which no rule was applied.
    pub fn all(scores: &'a [f64], within: impl Into<Scopes<'a>>) -> Self {
        Self { scores, verdicts: &[], scopes: within.into() }
    }

    /// Return the number of rows, dropped ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Return whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Return the score of a row; NaN for one that takes no part.
    #[must_use]
    pub fn score(&self, row: usize) -> f64 {
        let kept = self.verdicts.get(row).is_none_or(|&verdict| verdict == Verdict::Kept);
        if kept && self.scopes.of(row).is_some() { self.scores[row] } else { f64::NAN }
    }

    /// The scores of some rows, as many as there are places or fewer, and NaN behind them.
    #[inline(always)]
    pub(super) fn side<const N: usize>(&self, rows: Range<usize>, out: &mut [f64; N]) {
        let count = rows.len().min(N);
        out[count..].fill(f64::NAN);
        let out = &mut out[..count];
        if let Scopes::Whole = self.scopes {
            out.copy_from_slice(&self.scores[rows.clone()]);
            for (score, &verdict) in out.iter_mut().zip(self.verdicts.get(rows).unwrap_or_default()) {
                *score = if verdict == Verdict::Kept { *score } else { f64::NAN };
            }
        } else {
            out.iter_mut().zip(rows).for_each(|(score, row)| *score = self.score(row));
        }
    }

    pub(super) fn check(&self, threads: usize) -> Result<()> {
        check_length("scores", self.len(), self.scopes.rows().unwrap_or(self.len()))?;
        if !self.verdicts.is_empty() {
            check_length("verdicts", self.verdicts.len(), self.len())?;
        }
        check_none_infinite("score", self.scores, threads)
    }
}

/// Sums of one scope at one inverse temperature b, over its rows, with d = score - top.
#[derive(Clone, Copy, Default)]
pub(super) struct ScopeSums {
    /// `sum exp(b d)`; 1 or more, and 0 for a scope without rows.
    first: Share,
    /// Second sum: [`square`] or [`entropy_term`].
    second: Share,
}

impl ScopeSums {
    /// Return the sums of one row, by its exponent and the [`exp`] of it.
    #[inline(always)]
    fn of(weight: f64, exponent: f64, second: impl Fn(f64, f64) -> f64) -> Self {
        Self { first: Share::of(weight), second: Share::of(second(weight, exponent)) }
    }

    fn add(&mut self, other: Self) {
        self.first.add(other.first);
        self.second.add(other.second);
    }

    /// `log sum exp(b d)`: log Z less `b * top`; minus infinity for a scope without rows.
    pub(super) fn log(self) -> f64 {
        libm::log(self.first.value())
    }

    /// Return the weight of one row at the top, of a total of 1; 0 for a scope without rows.
    pub(super) fn top_weight(self) -> f64 {
        if self.first == Share::default() { 0.0 } else { 1.0 / self.first.value() }
    }

    /// Return the entropy `-sum p ln p` over the rows, where the second sum is of [`entropy_term`].
    fn entropy(self) -> f64 {
        let first = self.first.value();
        libm::log(first) + self.second.value() / first
    }

    /// `sum w^2` over the rows, of a total of 1, where the second sum is of [`square`].
    fn concentration(self) -> f64 {
        let first = self.first.value();
        (self.second.value() / (first * first)).min(1.0)
    }
}

/// `w^2`: what the effective sample size is made of.
#[inline(always)]
pub(super) fn square(weight: f64, _: f64) -> f64 {
    weight * weight
}

/// `-w ln w`, which is from 0 to 1/e: what entropy is made of.
#[inline(always)]
fn entropy_term(weight: f64, exponent: f64) -> f64 {
    // A difference from 0 and no negation, which at the top would be -0.
    if weight > 0.0 { 0.0 - weight * exponent } else { 0.0 }
}

/// More than any entropy of rows that are counted in 32 bits, and a power of two, so that it divides without rounding.
const LARGEST_ENTROPY: f64 = 32.0;

/// Inputs of the sums of all scopes besides b, computed once.
pub(super) struct ScoreScale<'a> {
    pub(super) rows: Rows<'a>,
    threads: usize,
    /// The largest score of each scope that has a number; minus infinity for one without rows.
    pub(super) tops: Vec<f64>,
    /// Rows that are a scope of their own.
    pub(super) alone: usize,
    /// Rows that take part.
    pub(super) kept: usize,
    /// Largest less smallest score over all scopes; 0 for no rows.
    pub(super) spread: f64,
    /// The distinct scores below the top and how many rows have each, where there are few and one scope.
    levels: Option<Vec<(f64, u32)>>,
}

impl<'a> ScoreScale<'a> {
    /// Cost: two passes. Fails where the spread is beyond f64.
    pub(super) fn new(rows: Rows<'a>, threads: usize) -> Result<Self> {
        let seen = parallel::map(rows.len(), threads, |block| ScoreRange::of(rows, block));
        let ScoreRange { kept, alone, low, high } =
            seen.into_iter().fold(ScoreRange::NOTHING, ScoreRange::merge);
        let spread = if kept == 0 { 0.0 } else { high - low };
        if !spread.is_finite() {
            return Err(Error::Number { what: "spread of the scores", value: spread });
        }
        let tops = match rows.scopes.groups() {
            None => vec![high; usize::from(!rows.is_empty())],
            // `max` gives the other operand for a NaN.
            Some(groups) => {
                groups.fold(threads, f64::NEG_INFINITY, |top, _, row| *top = top.max(rows.score(row)))
            }
        };
        Ok(Self { rows, threads, tops, alone, kept, spread, levels: None })
    }

    /// Look for levels, which make every later sum over one scope nearly free.
    pub(super) fn with_levels(mut self) -> Self {
        if let (Scopes::Whole, Some(&top)) = (self.rows.scopes, self.tops.first()) {
            self.levels = count_levels(self.rows, top);
        }
        self
    }

    /// Return the sums of each scope that has a number.
    pub(super) fn sums(&self, b: f64, second: impl Fn(f64, f64) -> f64 + Copy + Sync) -> Vec<ScopeSums> {
        let (rows, tops) = (self.rows, &self.tops);
        let add = |sums: &mut ScopeSums, scope: usize, row: usize| {
            let score = rows.score(row);
            if !score.is_nan() {
                let exponent = b * (score - tops[scope]);
                sums.add(ScopeSums::of(exp(exponent), exponent, second));
            }
        };
        match (rows.scopes.groups(), &self.levels) {
            (Some(groups), _) => groups.fold(self.threads, ScopeSums::default(), add),
            (None, Some(levels)) => vec![sum(levels.iter().map(|&(below, count)| {
                let ScopeSums { first, second } = ScopeSums::of(exp(b * below), b * below, second);
                ScopeSums { first: first.times(count), second: second.times(count) }
            }))],
            (None, None) if rows.is_empty() => Vec::new(),
            (None, None) => vec![sum(parallel::map(rows.len(), self.threads, |block| {
                wide(BlockSums { rows, block, top: tops[0], b, second })
            })
            .into_iter())],
        }
    }

    /// Scopes that have rows.
    pub(super) fn filled(&self) -> usize {
        self.alone + self.tops.iter().filter(|&&top| top > f64::NEG_INFINITY).count()
    }

    /// Effective sample size over all scopes, each of total weight 1; 0 for no rows.
    ///
    /// ```text
    /// ess = S^2 / sum_s (sum_i exp(2 b s_i)) / (sum_i exp(b s_i))^2,    S = scopes that have rows
    /// ```
    ///
    /// It never rises with b >= 0, for the log of each summand has the slope `2 (E_2b[s] - E_b[s]) >= 0`: that is
    /// what makes a search by brackets right.
    pub(super) fn ess(&self, sums: &[ScopeSums]) -> f64 {
        if self.kept == 0 {
            return 0.0;
        }
        let mut concentration = Share::of(1.0);
        concentration.0 *= self.alone as u128;
        for sums in sums.iter().filter(|sums| sums.first != Share::default()) {
            concentration.add(Share::of(sums.concentration()));
        }
        let scopes = self.filled() as f64;
        scopes * scopes / concentration.value()
    }

    /// Return the effective sample size as a share of the kept rows; 0 for no rows.
    pub(super) fn share(&self, b: f64) -> f64 {
        if self.kept == 0 { 0.0 } else { self.ess(&self.sums(b, square)) / self.kept as f64 }
    }

    /// Return the divergence of the target, over all scopes of total weight 1 each, from uniform over the kept rows,
    /// in nats.
    ///
    /// ```text
    /// KL(p || 1/n) = log n - H(p),    H(p) = log S + mean of the entropies of the scopes
    /// ```
    ///
    /// It never falls with b >= 0: the slope of each entropy is `-b Var_b[s]`.
    pub(super) fn kl(&self, b: f64) -> f64 {
        if self.kept == 0 {
            return 0.0;
        }
        let mut entropies = Share::default();
        for sums in self.sums(b, entropy_term).iter().filter(|sums| sums.first != Share::default()) {
            entropies.add(Share::of(sums.entropy() / LARGEST_ENTROPY));
        }
        let scopes = self.filled() as f64;
        let entropy = libm::log(scopes) + entropies.value() * LARGEST_ENTROPY / scopes;
        (libm::log(self.kept as f64) - entropy).max(0.0)
    }
}

/// The sums of a block of rows that are all of one scope; exponentials are taken side by side.
struct BlockSums<'a, S> {
    rows: Rows<'a>,
    block: Range<usize>,
    top: f64,
    b: f64,
    second: S,
}

impl<S: Fn(f64, f64) -> f64> Kernel for BlockSums<'_, S> {
    type Output = ScopeSums;

    #[inline(always)]
    fn run(self) -> ScopeSums {
        const { assert!(parallel::BLOCK <= SIDE * Shares::MOST) };
        let (mut first, mut second) = (Shares::ZERO, Shares::ZERO);
        let (mut scores, mut weights, mut others) = ([0.0; SIDE], [0.0; SIDE], [0.0; SIDE]);
        for start in self.block.clone().step_by(SIDE) {
            self.rows.side(start..self.block.end.min(start + SIDE), &mut scores);
            for lane in 0..SIDE {
                let exponent = self.b * (scores[lane] - self.top);
                let weight = exp(exponent);
                // A row that takes no part adds nothing.
                let none = exponent.is_nan();
                weights[lane] = if none { 0.0 } else { weight };
                others[lane] = if none { 0.0 } else { (self.second)(weight, exponent) };
            }
            first.add(&weights);
            second.add(&others);
        }
        ScopeSums { first: first.total(), second: second.total() }
    }
}

fn sum(parts: impl Iterator<Item = ScopeSums>) -> ScopeSums {
    let mut total = ScopeSums::default();
    parts.for_each(|part| total.add(part));
    total
}

/// Number of rows that take part, and the range of their scores.
#[derive(Clone, Copy)]
struct ScoreRange {
    kept: usize,
    alone: usize,
    low: f64,
    high: f64,
}

impl ScoreRange {
    const NOTHING: Self = Self { kept: 0, alone: 0, low: f64::INFINITY, high: f64::NEG_INFINITY };

    fn of(rows: Rows<'_>, block: Range<usize>) -> Self {
        let (mut seen, mut scores) = (Self::NOTHING, [0.0; SIDE]);
        for start in block.clone().step_by(SIDE) {
            rows.side(start..block.end.min(start + SIDE), &mut scores);
            // `min` and `max` give the other operand for a NaN.
            seen.kept += scores.iter().filter(|score| !score.is_nan()).count();
            seen.low = scores.iter().copied().fold(seen.low, f64::min);
            seen.high = scores.iter().copied().fold(seen.high, f64::max);
        }
        if let Scopes::OfOrAlone(_) = rows.scopes {
            let alone = |&row: &usize| rows.scopes.of(row) == Some(Scope::Alone) && !rows.score(row).is_nan();
            seen.alone = block.filter(alone).count();
        }
        seen
    }

    fn merge(self, other: Self) -> Self {
        Self {
            kept: self.kept + other.kept,
            alone: self.alone + other.alone,
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

/// More distinct scores than this are not counted.
const MOST: usize = 1024;

/// Slots of the table, a power of two, so that it stays half empty.
const SLOTS: usize = 4 * MOST;

/// Count the rows of each distinct score, less `top`; none where there are more than a thousand scores.
///
/// Sums are exact ([`Share`]), so counting equal terms and multiplying gives the bits of adding each: levels change the
/// cost of a search over temperatures, and nothing else. Cost: one look-up a row, up to the row that shows there are too
/// many.
///
/// Speed: one exponential a distinct score in a search over temperatures. No record isolates it;
/// `benches/record/instructions.json`, `core::boltzmann_by_ess`, includes it.
fn count_levels(rows: Rows<'_>, top: f64) -> Option<Vec<(f64, u32)>> {
    let mut table: Vec<(f64, u32)> = vec![(0.0, 0); SLOTS];
    let mut filled = 0;
    for score in (0..rows.len()).map(|row| rows.score(row)).filter(|score| !score.is_nan()) {
        let below = score - top;
        // 2^64 over the golden ratio spreads neighbouring bit patterns over the table.
        let mut slot = (below.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % SLOTS;
        while table[slot].1 > 0 && table[slot].0.to_bits() != below.to_bits() {
            slot = (slot + 1) % SLOTS;
        }
        filled += usize::from(table[slot].1 == 0);
        if filled > MOST {
            return None;
        }
        table[slot] = (below, table[slot].1 + 1);
    }
    table.retain(|&(_, count)| count > 0);
    Some(table)
}
