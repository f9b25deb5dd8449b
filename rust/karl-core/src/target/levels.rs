//! The scores of a partition as distinct levels: all that log Z and the effective sample size need.

use crate::error::{Error, Result};
use crate::group::Groups;
use crate::numeric::Compensated;

/// The distinct scores of each scope, ascending, with how many rows have each.
///
/// Logs have few distinct rewards, so a partition at one temperature costs a handful of `exp` instead of one
/// a row, and a search over temperatures is nearly free. Because the levels are sorted, the sums over them do
/// not depend on the order of the rows at all.
pub(super) struct Levels {
    /// The largest score of each scope; minus infinity for a scope without rows.
    tops: Vec<f64>,
    /// Where the levels of each scope start; one more at the end.
    offsets: Vec<usize>,
    /// Score less the top of its scope, so never above zero.
    below: Vec<f64>,
    counts: Vec<f64>,
    /// Rows that have a score and a scope.
    pub(super) kept: usize,
    /// Largest less smallest score over all scopes; 0 for no rows.
    pub(super) spread: f64,
}

/// Sums of one scope at one inverse temperature b, over its rows, with d = score - top.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    /// `sum exp(b d)`; 1 or more.
    first: f64,
    /// `sum exp(2 b d)`.
    second: f64,
}

impl Levels {
    /// Collects the levels. Scores must be finite or NaN; NaN and rows without a scope are left out.
    ///
    /// Cost: one sort of the scores of each scope. Fails where the spread is beyond f64.
    pub(super) fn new(scores: &[f64], partition: &Groups) -> Result<Self> {
        let mut levels = Self {
            tops: Vec::with_capacity(partition.len()),
            offsets: vec![0],
            below: Vec::new(),
            counts: Vec::new(),
            kept: 0,
            spread: 0.0,
        };
        let mut lowest = f64::INFINITY;
        let mut buffer = Vec::new();
        for members in partition.iter() {
            buffer.clear();
            buffer.extend(members.iter().map(|&row| scores[row as usize]).filter(|score| !score.is_nan()));
            buffer.sort_unstable_by(f64::total_cmp);
            lowest = lowest.min(buffer.first().copied().unwrap_or(f64::INFINITY));
            levels.push_scope(&buffer);
        }
        levels.spread = if levels.kept == 0 { 0.0 } else { levels.highest() - lowest };
        levels.checked()
    }

    fn push_scope(&mut self, sorted: &[f64]) {
        let top = sorted.last().copied().unwrap_or(f64::NEG_INFINITY);
        // By value, not by bits: 0 and -0 are one level.
        for run in sorted.chunk_by(|a, b| a >= b) {
            self.below.push(run[0] - top);
            self.counts.push(run.len() as f64);
        }
        self.kept += sorted.len();
        self.tops.push(top);
        self.offsets.push(self.below.len());
    }

    fn highest(&self) -> f64 {
        self.tops.iter().fold(f64::NEG_INFINITY, |highest, &top| highest.max(top))
    }

    fn checked(self) -> Result<Self> {
        if self.spread.is_finite() {
            Ok(self)
        } else {
            Err(Error::NotFinite { what: "spread of the scores", index: 0, value: self.spread })
        }
    }

    /// The largest score of a scope.
    pub(super) fn top(&self, scope: usize) -> f64 {
        self.tops[scope]
    }

    /// Scopes that have rows.
    pub(super) fn filled(&self) -> usize {
        self.offsets.windows(2).filter(|ends| ends[0] < ends[1]).count()
    }

    /// The sums of each scope; none for a scope without rows.
    pub(super) fn sums(&self, inverse_temperature: f64) -> impl Iterator<Item = Option<Sums>> {
        self.offsets.windows(2).map(move |ends| {
            let levels = ends[0]..ends[1];
            (!levels.is_empty())
                .then(|| sums(&self.below[levels.clone()], &self.counts[levels], inverse_temperature))
        })
    }

    /// Effective sample size over all scopes, each of total weight 1; 0 for no rows.
    ///
    /// ```text
    /// ess = S^2 / sum_s (sum_i exp(2 b s_i)) / (sum_i exp(b s_i))^2,    S = scopes that have rows
    /// ```
    ///
    /// It never rises with b >= 0, for the log of each summand has the slope
    /// `2 (E_2b[s] - E_b[s]) >= 0`: that is what makes bisection right.
    pub(super) fn ess(&self, inverse_temperature: f64) -> f64 {
        let mut scopes = 0.0;
        let mut concentration = Compensated::default();
        for sums in self.sums(inverse_temperature).flatten() {
            scopes += 1.0;
            concentration.add(sums.second / (sums.first * sums.first));
        }
        if self.kept == 0 { 0.0 } else { scopes * scopes / concentration.value() }
    }

    /// The effective sample size as a share of the kept rows; 0 for no rows.
    pub(super) fn share(&self, inverse_temperature: f64) -> f64 {
        if self.kept == 0 { 0.0 } else { self.ess(inverse_temperature) / self.kept as f64 }
    }
}

impl Sums {
    /// `log sum exp(b d)`: log Z less `b * top`.
    pub(super) fn log(self) -> f64 {
        libm::log(self.first)
    }

    /// The weight of one row at the top, of a total of 1.
    pub(super) fn top_weight(self) -> f64 {
        1.0 / self.first
    }
}

fn sums(below: &[f64], counts: &[f64], inverse_temperature: f64) -> Sums {
    let (mut first, mut second) = (Compensated::default(), Compensated::default());
    for (&below, &count) in below.iter().zip(counts) {
        let weight = libm::exp(inverse_temperature * below);
        first.add(count * weight);
        second.add(count * weight * weight);
    }
    Sums { first: first.value(), second: second.value() }
}
