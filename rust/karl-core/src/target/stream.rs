//! The target of rows of a stream, which are not stored.

use super::fit::{Boltzmann, Normaliser};
use super::rows::Rows;
use super::search::Note;
use crate::error::Result;
use crate::numeric::exact::LogSum;

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
    /// [`Error::NotFinite`](crate::Error::NotFinite) for a log Z beyond f64.
    pub fn of_stream(self, rows: Rows<'_>) -> Result<Self> {
        let mut sums = StreamSums::default();
        let scores = (0..rows.len()).map(|row| rows.score(row)).filter(|score| !score.is_nan());
        scores.for_each(|score| sums.push(self.inverse_temperature * score));
        let fit = sums.fit(self.inverse_temperature);
        Self { wanted_ess: self.wanted_ess, note: self.note, ..fit }.checked()
    }
}
