//! The Boltzmann target: fitted to a wanted temperature, summed as a stream sums it, as arrays, or at many temperatures.

use super::Rows;
use super::sums::{ScopeSums, ScoreScale, square};
use super::temperature::{Note, Temperature, check_inverse_temperature, check_temperature, solve};
use crate::check::check_length;
use crate::error::{Error, Result};
use crate::group::{Scope, Scopes};
use crate::numeric::exact::LogSum;
use crate::numeric::exp::{Each, exp};
use crate::numeric::parallel;
use crate::numeric::simd::{Kernel, SIDE, wide};
use crate::numeric::sum::sum;

/// A target distribution over rows as arrays, and how concentrated it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// b of `exp(b * score)`.
    pub inverse_temperature: f64,
    /// The wanted ESS as a share of the kept rows; none where the inverse temperature was given.
    pub wanted_ess: Option<f64>,
    /// The ESS, in rows.
    pub reached_ess: f64,
    /// The ESS as a share of the kept rows; 0 for no rows.
    pub reached_share: f64,
    /// The wanted divergence from uniform, in nats; none where something else was.
    pub wanted_kl: Option<f64>,
    /// KL(target || uniform over the kept rows), in nats: log n less the entropy.
    pub reached_kl: f64,
    /// Reason for a difference of wanted and reached; None where they are equal.
    pub note: Option<Note>,
    /// Log partition of each scope; minus infinity for a scope without rows.
    pub log_z: Vec<f64>,
    /// Log weight of each row, normalised within its scope; minus infinity for a dropped row.
    pub log_weights: Vec<f64>,
}

/// Compute the Boltzmann target of `scores` within scopes, as arrays.
///
/// ```text
/// log w_i = b s_i - log Z(scope of i),    log Z(scope) = log sum_{j in scope} exp(b s_j)
/// ESS     = S^2 / sum_scope exp(LSE(2 b s) - 2 LSE(b s))        (S scopes, each of total weight 1)
/// KL      = log n + sum_i p_i log p_i,  p_i = w_i / S           (n kept rows)
/// ```
///
/// A row with a NaN score or without a scope is a dropped row: its log weight is minus infinity, and it is in no sum.
/// Candidates for b are the doubles in `[0, 1e4 / spread]` with 40 bits below the leading one. [`Temperature::Ess`]
/// takes the smallest b with an ESS of at most the wanted share of the kept rows, [`Temperature::Kl`] the smallest
/// with an `exp(-KL)` of at most that of the wanted divergence: the same bits on every machine, for any order of rows
/// and any number of threads.
///
/// Shapes: scores `[B]`, log weights `[B]`, log Z `[scopes]`. Cost: as [`Boltzmann::fit`].
/// References: Peters and Schaal 2007 (RWR); `FlowRL` (arXiv:2509.15207) for the name of the target; Kish 1965.
///
/// # Errors
/// [`Error::Length`] where scores and scopes differ in rows;
/// [`Error::NotFinite`] for an infinite score, or a log Z beyond f64;
/// [`Error::Number`] for a spread beyond f64, or an infinite divergence or inverse temperature;
/// [`Error::Fraction`] for a share outside (0, 1];
/// [`Error::Negative`] for a negative divergence or inverse temperature.
pub fn boltzmann<'a>(
    scores: &'a [f64],
    within: impl Into<Scopes<'a>>,
    temperature: Temperature,
    threads: usize,
) -> Result<Target> {
    let rows = Rows::all(scores, within);
    let scale = scale_scores(rows, temperature, threads)?;
    let fit = Boltzmann::of(&scale, temperature)?;
    let mut log_weights = vec![0.0; scores.len()];
    parallel::fill(&mut log_weights, threads, |first, out| {
        wide(Logs { target: &fit, rows: &rows, first, out });
    });
    Ok(Target {
        inverse_temperature: fit.inverse_temperature,
        wanted_ess: fit.wanted_ess,
        reached_ess: fit.reached_ess,
        reached_share: fit.reached_share,
        wanted_kl: if let Temperature::Kl(nats) = temperature { Some(nats) } else { None },
        reached_kl: scale.kl(fit.inverse_temperature),
        note: fit.note,
        log_z: fit.log_z().collect(),
        log_weights,
    })
}

/// Return the inputs of the sums of a target, with the distinct scores counted for a search of the temperature.
fn scale_scores(rows: Rows<'_>, temperature: Temperature, threads: usize) -> Result<ScoreScale<'_>> {
    check_temperature(temperature)?;
    rows.check(threads)?;
    let scale = ScoreScale::new(rows, threads)?;
    Ok(if matches!(temperature, Temperature::Inverse(_)) { scale } else { scale.with_levels() })
}

/// A Boltzmann distribution over rows, without a number a row: how sharp it is, and the log partition of each scope.
#[derive(Clone, Debug, PartialEq)]
pub struct Boltzmann {
    /// b of `exp(b * score)`.
    pub inverse_temperature: f64,
    /// The wanted ESS as a share of the kept rows; none where the inverse temperature was given.
    pub wanted_ess: Option<f64>,
    /// The ESS, in rows.
    pub reached_ess: f64,
    /// The ESS as a share of the kept rows; 0 for no rows.
    pub reached_share: f64,
    /// Reason for a difference of wanted and reached; None where they are equal.
    pub note: Option<Note>,
    /// The largest probability any one row has of being drawn first; 0 for no rows.
    pub top_share: f64,
    /// Scopes that have rows.
    pub filled: usize,
    scopes: Vec<Normaliser>,
}

/// Normalisation of one scope, from a score to a log weight.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Normaliser {
    /// The score that the sum is relative to: the largest.
    top: f64,
    /// `log sum exp(b (s - top))`.
    log_sum: f64,
}

impl Boltzmann {
    /// Fit the temperature and sum the weights.
    ///
    /// Cost: one pass over the rows for a given temperature, about ten for a wanted share; two more to begin with.
    ///
    /// # Errors
    /// As [`boltzmann()`].
    pub fn fit(rows: Rows<'_>, temperature: Temperature, threads: usize) -> Result<Self> {
        Self::of(&scale_scores(rows, temperature, threads)?, temperature)
    }

    fn of(scale: &ScoreScale<'_>, temperature: Temperature) -> Result<Self> {
        let (wanted_ess, (found, note)) = match temperature {
            Temperature::Inverse(given) => (None, (given, (scale.kept == 0).then_some(Note::NoRows))),
            Temperature::Ess(wanted) => (Some(wanted), solve(scale, wanted, |b| scale.share(b))),
            Temperature::Kl(nats) => {
                let share = |b| libm::exp(-scale.kl(b));
                (None, solve(scale, libm::exp(-nats), share))
            }
        };
        Self::at(scale, found).map(|fit| Self { wanted_ess, note, ..fit })
    }

    fn at(scale: &ScoreScale<'_>, b: f64) -> Result<Self> {
        let sums = scale.sums(b, square);
        let top =
            sums.iter().map(|sums| sums.top_weight()).fold(f64::from(u8::from(scale.alone > 0)), f64::max);
        let (ess, filled) = (scale.ess(&sums), scale.filled());
        let scope = |(&top, sums): (&f64, &ScopeSums)| Normaliser { top, log_sum: sums.log() };
        let fit = Self {
            inverse_temperature: b,
            wanted_ess: None,
            reached_ess: ess,
            reached_share: if scale.kept == 0 { 0.0 } else { ess / scale.kept as f64 },
            note: None,
            top_share: if filled == 0 { 0.0 } else { top / filled as f64 },
            filled,
            scopes: scale.tops.iter().zip(&sums).map(scope).collect(),
        };
        fit.check_log_z()
    }

    pub(crate) fn check_log_z(self) -> Result<Self> {
        let wrong = |(_, log_z): &(usize, f64)| log_z.is_nan() || *log_z == f64::INFINITY;
        let found = self.log_z().enumerate().find(wrong);
        match found {
            Some((index, value)) => Err(Error::NotFinite { what: "log_z", index, value }),
            None => Ok(self),
        }
    }

    /// log Z of each scope that has a number; minus infinity for one without rows.
    pub fn log_z(&self) -> impl Iterator<Item = f64> {
        self.scopes.iter().map(|scope| match scope.top {
            f64::NEG_INFINITY => f64::NEG_INFINITY,
            top => self.inverse_temperature * top + scope.log_sum,
        })
    }

    /// Return the log weight of a row: `b s - log Z(scope)`; minus infinity for a row that takes no part.
    ///
    /// It is computed relative to the top of the scope, `b (s - top) - log sum exp(b (s - top))`, without the two large
    /// numbers that cancel.
    #[must_use]
    pub fn log_weight(&self, rows: &Rows<'_>, row: usize) -> f64 {
        let score = rows.score(row);
        match rows.scopes.of(row) {
            Some(Scope::Alone) if !score.is_nan() => 0.0,
            Some(Scope::Shared(at)) if !score.is_nan() => {
                let Normaliser { top, log_sum } = self.scopes[at];
                self.inverse_temperature * (score - top) - log_sum
            }
            _ => f64::NEG_INFINITY,
        }
    }
}

/// The log weights of the rows from `first` on, as many as there are places, on whole vectors of them.
///
/// Speed: whole vectors of log weights. Record: `benches/record/instructions.json`, `core::boltzmann_given`.
struct Logs<'a> {
    target: &'a Boltzmann,
    rows: &'a Rows<'a>,
    first: usize,
    out: &'a mut [f64],
}

impl Kernel for Logs<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.target.log_weights(self.rows, self.first, self.out);
    }
}

impl Boltzmann {
    /// [`log_weight`](Self::log_weight) of the rows from `first` on, as many as there are places.
    #[inline(always)]
    pub(crate) fn log_weights(&self, rows: &Rows<'_>, first: usize, out: &mut [f64]) {
        let (Scopes::Whole, Some(&Normaliser { top, log_sum })) = (rows.scopes, self.scopes.first()) else {
            return out.iter_mut().zip(first..).for_each(|(log, row)| *log = self.log_weight(rows, row));
        };
        let (b, mut scores) = (self.inverse_temperature, [0.0; SIDE]);
        for (first, out) in (first..).step_by(SIDE).zip(out.chunks_mut(SIDE)) {
            rows.side(first..first + out.len(), &mut scores);
            for (log, score) in out.iter_mut().zip(scores) {
                *log = if score.is_nan() { f64::NEG_INFINITY } else { b * (score - top) - log_sum };
            }
        }
    }

    /// Return the mean of a column over the row drawn first: `sum_i p_i x_i`, with `p_i = w_i / scopes`.
    ///
    /// A kept row without a value makes it NaN, and so do no kept rows. Blocks of rows fold in row order.
    #[must_use]
    pub fn expected(&self, rows: &Rows<'_>, values: &[f64], threads: usize) -> f64 {
        let parts = parallel::map(rows.len(), threads, |block| {
            let mut logs = vec![0.0; block.len()];
            wide(Logs { target: self, rows, first: block.start, out: &mut logs });
            let mut weights = logs.clone();
            wide(Each(&mut weights, exp));
            // A dropped row may have no value, and 0 * NaN is NaN.
            let terms = weights.iter().zip(&values[block]).zip(logs);
            let kept = terms.filter(|&(_, log)| log > f64::NEG_INFINITY);
            sum(kept.map(|((weight, value), _)| weight * value))
        });
        sum(parts.into_iter()) / self.filled as f64
    }
}

/// The sums under a target over one scope, taken from a stream: the same bits in any order.
#[derive(Clone, Debug, Default)]
pub struct StreamSums {
    kept: u64,
    top: Option<f64>,
    first: LogSum,
    second: LogSum,
}

impl StreamSums {
    /// Take in one row by its exponent, `b s`.
    pub fn push(&mut self, exponent: f64) {
        self.kept += 1;
        self.top = Some(self.top.map_or(exponent, |top| top.max(exponent)));
        self.first.push(exponent);
        self.second.push(2.0 * exponent);
    }

    /// Return the target of the rows seen, at the inverse temperature of their exponents.
    #[must_use]
    pub fn fit(&self, inverse_temperature: f64) -> Boltzmann {
        let log_z = self.first.value();
        let ess = if self.kept == 0 { 0.0 } else { libm::exp(2.0 * log_z - self.second.value()) };
        Boltzmann {
            inverse_temperature,
            wanted_ess: None,
            reached_ess: ess,
            reached_share: if self.kept == 0 { 0.0 } else { ess / self.kept as f64 },
            note: (self.kept == 0).then_some(Note::NoRows),
            top_share: self.top.map_or(0.0, |top| libm::exp(top - log_z)),
            filled: usize::from(self.kept > 0),
            scopes: vec![Normaliser { top: 0.0, log_sum: log_z }],
        }
    }
}

impl Boltzmann {
    /// Return the same distribution summed as a stream can sum it: from exponents that are relative to nothing, which
    /// gives the same bits in any order. All rows have to be one scope.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for a log Z beyond f64.
    pub fn of_stream(self, rows: Rows<'_>) -> Result<Self> {
        let mut sums = StreamSums::default();
        let scores = (0..rows.len()).map(|row| rows.score(row)).filter(|score| !score.is_nan());
        scores.for_each(|score| sums.push(self.inverse_temperature * score));
        let fit = sums.fit(self.inverse_temperature);
        Self { wanted_ess: self.wanted_ess, note: self.note, ..fit }.check_log_z()
    }
}

/// Properties of a target at one inverse temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tempered {
    /// b of `exp(b * score)`.
    pub inverse_temperature: f64,
    /// Effective sample size, in rows.
    pub ess: f64,
    /// Effective sample size as a share of the kept rows.
    pub share: f64,
    /// The largest probability any one row has of being drawn first.
    pub top_share: f64,
    /// The mean reward of the row drawn first.
    pub expected_reward: f64,
}

/// Return the target of some rows at each of `inverse_temperatures`.
///
/// With S scopes that have rows, row i is drawn first with probability `p_i = w_i / S`:
///
/// ```text
/// top_share = max_i p_i        expected_reward = sum_i p_i r_i
/// ```
///
/// `rewards` are what the weights are averaged over; they differ from the scores where those are advantages.
/// A kept row without a reward makes `expected_reward` NaN; with no kept rows it is NaN, and the others are 0.
/// Shapes: rewards `[B]`. Cost: two passes over the rows a temperature, one where there are few distinct scores.
///
/// # Errors
/// As [`boltzmann()`], and [`Error::Length`] where the rewards differ in
/// rows.
pub fn temper(
    rows: Rows<'_>,
    rewards: &[f64],
    inverse_temperatures: &[f64],
    threads: usize,
) -> Result<Vec<Tempered>> {
    check_length("rewards", rewards.len(), rows.len())?;
    let each = || inverse_temperatures.iter().copied().enumerate();
    each().try_for_each(|(index, b)| check_inverse_temperature(index, b))?;
    rows.check(threads)?;
    let scale = ScoreScale::new(rows, threads)?.with_levels();
    let row = |(_, b)| {
        let fit = Boltzmann::at(&scale, b)?;
        Ok(Tempered {
            inverse_temperature: b,
            ess: fit.reached_ess,
            share: fit.reached_share,
            top_share: fit.top_share,
            expected_reward: fit.expected(&rows, rewards, threads),
        })
    };
    each().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Verdict;
    use crate::group::Groups;
    use crate::target::Temperature;

    #[test]
    fn a_run_of_rows_has_the_log_weights_of_each() {
        let codes: Vec<u32> =
            (0..300).map(|row| if row % 11 == 0 { Groups::NONE } else { row % 7 }).collect();
        let scores: Vec<f64> =
            (0..300_u32).map(|row| if row % 5 == 0 { f64::NAN } else { f64::from(row % 37) }).collect();
        let verdict = |row| if row % 13 == 0 { Verdict::Duplicate } else { Verdict::Kept };
        let verdicts: Vec<Verdict> = (0..300).map(verdict).collect();
        let groups = Groups::from_codes(codes, 7).unwrap();
        for scopes in [Scopes::Whole, Scopes::Of(&groups), Scopes::OfOrAlone(&groups)] {
            for verdicts in [&[], verdicts.as_slice(), &[Verdict::Duplicate; 300]] {
                let rows = Rows { scores: &scores, verdicts, scopes };
                let target = Boltzmann::fit(rows, Temperature::Inverse(0.3), 1).unwrap();
                for (first, count) in [(0, 300), (1, 64), (63, 200), (299, 1), (300, 0)] {
                    let mut out = vec![0.0; count];
                    wide(Logs { target: &target, rows: &rows, first, out: &mut out });
                    let each = (first..first + count).map(|row| target.log_weight(&rows, row).to_bits());
                    assert!(out.iter().map(|log| log.to_bits()).eq(each), "{scopes:?} {first}");
                }
            }
        }
    }
}
