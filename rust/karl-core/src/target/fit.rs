//! A fitted Boltzmann distribution: its inverse temperature and the log partition of each scope.

use super::rows::Rows;
use super::search::{Note, solve};
use super::sums::{ScopeSums, ScoreScale, square};
use super::temperature::{Temperature, check_temperature};
use crate::error::{Error, Result};
use crate::group::Scope;

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
    pub(super) scopes: Vec<Normaliser>,
}

/// Normalisation of one scope, from a score to a log weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Normaliser {
    /// The score that the sum is relative to: the largest.
    pub(super) top: f64,
    /// `log sum exp(b (s - top))`.
    pub(super) log_sum: f64,
}

impl Boltzmann {
    /// Fit the temperature and sum the weights.
    ///
    /// Cost: one pass over the rows for a given temperature, about ten for a wanted share; two more to begin with.
    ///
    /// # Errors
    /// As [`boltzmann`](super::boltzmann).
    pub fn fit(rows: Rows<'_>, temperature: Temperature, threads: usize) -> Result<Self> {
        Self::of(&scaled(rows, temperature, threads)?, temperature)
    }

    pub(super) fn of(scale: &ScoreScale<'_>, temperature: Temperature) -> Result<Self> {
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

    pub(super) fn at(scale: &ScoreScale<'_>, b: f64) -> Result<Self> {
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

/// Return the inputs of the sums of a target, with the distinct scores counted for a search of the temperature.
pub(super) fn scaled(rows: Rows<'_>, temperature: Temperature, threads: usize) -> Result<ScoreScale<'_>> {
    check_temperature(temperature)?;
    rows.check(threads)?;
    let scale = ScoreScale::new(rows, threads)?;
    Ok(if matches!(temperature, Temperature::Inverse(_)) { scale } else { scale.with_levels() })
}
