//! How much each row should count: the Boltzmann target, its log partition, and how far it is from uniform.
//!
//! ```text
//! w_i = exp(b s_i) / Z(scope of i),    Z(scope) = sum over its rows of exp(b s)
//! ```
//!
//! `s` is the score, `b` the inverse temperature: 0 is uniform, large is "the best only". A scope is what is
//! normalised together: the whole log, or each group of a partition, and then each scope has total weight 1.
//! Weights stay logarithms throughout; `exp(b s)` itself overflows at b s = 710.
//!
//! Sums of weights are exact ([`crate::numeric::exact`]): they do not depend on the order of the rows, nor on threads.
//!
//! The inverse temperature is given, or found from the effective sample size (ESS) it should leave. The same
//! `b` means nothing across logs (it depends on the scale of the reward), a share of ESS means the same
//! everywhere. A target that cannot be reached is not an error: the nearest is taken, and [`Note`] says why.

mod distinct;
mod likelihood;
mod log_weights;
mod rows;
mod search;
mod stream;
mod sums;
mod sweep;
mod tpo;

pub use likelihood::{awr_weights, rwr_weights};
pub use rows::Rows;
pub use stream::StreamSums;
pub use sweep::{Tempered, temper};
pub use tpo::{Tpo, tpo};

use crate::check::{check_not_negative, check_number};
use crate::error::{Error, Result};
use crate::group::{Scope, Scopes};
use crate::numeric::exp::{Each, exp};
use crate::numeric::parallel;
use crate::numeric::simd::wide;
use log_weights::Logs;
use sums::{Scale, Sums};

/// How the inverse temperature is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Temperature {
    /// So that the effective sample size is this share of the kept rows, in (0, 1].
    Ess(f64),
    /// So that the divergence KL(target || uniform over the kept rows) is this many nats, from 0 on.
    Kl(f64),
    /// Given: zero or more.
    Inverse(f64),
}

/// Why a wanted effective sample size or divergence was not reached, or what made the search idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// No row has both a score and a scope.
    NoRows,
    /// All scores are equal: every temperature gives the same weights, and 0 is taken.
    EqualScores,
    /// Scopes of uneven size are already below the share, or beyond the divergence, at inverse temperature 0, where they
    /// are most nearly uniform.
    UnevenScopes,
    /// So many rows share the top score that the share stays above the wanted one, or the divergence below it: the
    /// smallest inverse temperature is taken whose ESS, or `exp(-KL)`, is within a millionth of the smallest there is.
    TiesAtTop,
}

impl Note {
    /// The name used in manifests.
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
    /// Why wanted and reached differ; none where they do not.
    pub note: Option<Note>,
    /// The largest probability any one row has of being drawn first; 0 for no rows.
    pub top_share: f64,
    /// Scopes that have rows.
    pub filled: usize,
    scopes: Vec<Normaliser>,
}

/// What turns a score of one scope into a log weight.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Normaliser {
    /// The score that the sum is relative to: the largest.
    top: f64,
    /// `log sum exp(b (s - top))`.
    log_sum: f64,
}

impl Boltzmann {
    /// Fits the temperature and sums the weights.
    ///
    /// Cost: one pass over the rows for a given temperature, about ten for a wanted share; two more to begin with.
    ///
    /// # Errors
    /// As [`boltzmann`].
    pub fn fit(rows: Rows<'_>, temperature: Temperature, threads: usize) -> Result<Self> {
        Self::of(&scaled(rows, temperature, threads)?, temperature)
    }

    fn of(scale: &Scale<'_>, temperature: Temperature) -> Result<Self> {
        let (wanted_ess, (found, note)) = match temperature {
            Temperature::Inverse(given) => (None, (given, (scale.kept == 0).then_some(Note::NoRows))),
            Temperature::Ess(wanted) => (Some(wanted), search::solve(scale, wanted, |b| scale.share(b))),
            Temperature::Kl(nats) => {
                let share = |b| libm::exp(-scale.kl(b));
                (None, search::solve(scale, libm::exp(-nats), share))
            }
        };
        Self::at(scale, found).map(|fit| Self { wanted_ess, note, ..fit })
    }

    fn at(scale: &Scale<'_>, b: f64) -> Result<Self> {
        let sums = scale.sums(b, sums::square);
        let top =
            sums.iter().map(|sums| sums.top_weight()).fold(f64::from(u8::from(scale.alone > 0)), f64::max);
        let (ess, filled) = (scale.ess(&sums), scale.filled());
        let scope = |(&top, sums): (&f64, &Sums)| Normaliser { top, log_sum: sums.log() };
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
        fit.checked()
    }

    pub(crate) fn checked(self) -> Result<Self> {
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

    /// The log weight of a row: `b s - log Z(scope)`; minus infinity for a row that takes no part.
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

    /// The mean of a column over the row drawn first: `sum_i p_i x_i`, with `p_i = w_i / scopes`.
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
            crate::numeric::sum::sum(kept.map(|((weight, value), _)| weight * value))
        });
        crate::numeric::sum::sum(parts.into_iter()) / self.filled as f64
    }
}

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
    /// Why wanted and reached differ; none where they do not.
    pub note: Option<Note>,
    /// Log partition of each scope; minus infinity for a scope without rows.
    pub log_z: Vec<f64>,
    /// Log weight of each row, normalised within its scope; minus infinity for a dropped row.
    pub log_weights: Vec<f64>,
}

/// The Boltzmann target of `scores` within scopes, as arrays.
///
/// ```text
/// log w_i = b s_i - log Z(scope of i),    log Z(scope) = log sum_{j in scope} exp(b s_j)
/// ESS     = S^2 / sum_scope exp(LSE(2 b s) - 2 LSE(b s))        (S scopes, each of total weight 1)
/// KL      = log n + sum_i p_i log p_i,  p_i = w_i / S           (n kept rows)
/// ```
///
/// A row with a NaN score or without a scope is a dropped row: its log weight is minus infinity, and it is in
/// no sum. For [`Temperature::Ess`] the smallest b in `[0, 1e4 / spread]` of the doubles with 40 bits below the leading
/// one is taken whose ESS is at most the wanted share of the kept rows, and for [`Temperature::Kl`] the smallest whose
/// `exp(-KL)` is at most that of the wanted divergence: the same bits on every machine, in whatever
/// order the rows come, and for any number of threads.
///
/// Shapes: scores `[B]`, log weights `[B]`, log Z `[scopes]`. Cost: as [`Boltzmann::fit`].
/// References: Peters and Schaal 2007 (RWR); `FlowRL` (arXiv:2509.15207) for the name of the target; Kish 1965.
///
/// # Errors
/// [`Error::Length`] where scores and scopes differ in rows; [`Error::NotFinite`] for an infinite score, or a log Z
/// beyond f64; [`Error::Number`] for a spread beyond f64, or an infinite divergence or inverse temperature;
/// [`Error::Fraction`] for a share outside (0, 1]; [`Error::Negative`] for a negative divergence or inverse temperature.
pub fn boltzmann<'a>(
    scores: &'a [f64],
    within: impl Into<Scopes<'a>>,
    temperature: Temperature,
    threads: usize,
) -> Result<Target> {
    let rows = Rows::all(scores, within);
    let scale = scaled(rows, temperature, threads)?;
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

/// What the sums of a target need, with the distinct scores counted where the temperature is searched for.
fn scaled(rows: Rows<'_>, temperature: Temperature, threads: usize) -> Result<Scale<'_>> {
    check_temperature(temperature)?;
    rows.check(threads)?;
    let scale = Scale::new(rows, threads)?;
    Ok(if matches!(temperature, Temperature::Inverse(_)) { scale } else { scale.with_levels() })
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

fn check_inverse_temperature(index: usize, value: f64) -> Result<()> {
    if value == f64::INFINITY {
        return Err(Error::NotFinite { what: "inverse_temperature", index, value });
    }
    check_not_negative("inverse_temperature", value)
}
