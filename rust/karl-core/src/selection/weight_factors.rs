//! Factors on the weights of a selection beside those of the score, such as recency.

use super::{Factored, Population, Selection, SelectionSettings, fit};
use crate::check::{check_finite, check_length};
use crate::error::Result;
use crate::target::{Boltzmann, Rows, Temperature, Tempered, temper};

impl Selection {
    /// Multiply the weight of each row by a factor.
    ///
    /// ```text
    /// log w_i = b s_i + log f_i - log Z,    log Z = log sum exp(b s + log f) over the scope of i
    /// ```
    ///
    /// The temperature stays that of the scores: with factors the ESS is no longer monotone in b, so that a wanted ESS may
    /// have several answers or none. The ESS reached is that of the product.
    /// Shapes: log-factors `[B]`. Cost: a few passes over the rows, and two numbers a row.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) for another number of rows;
    /// [`Error::NotFinite`](crate::Error::NotFinite) for a log-factor that is not finite, or a log-weight beyond f64.
    pub fn times(
        self,
        population: &Population<'_>,
        log_factors: Vec<f64>,
        settings: &SelectionSettings,
    ) -> Result<Self> {
        check_length("log_factors", log_factors.len(), self.verdicts.len())?;
        check_finite("log_factors", &log_factors)?;
        let b = self.target.inverse_temperature;
        let exponents = exponents(self.scores(population.rewards), &log_factors, b);
        let rows = Rows { scores: &exponents, verdicts: &self.verdicts, scopes: population.scopes };
        let target = fit(rows, Temperature::Inverse(1.0), settings)?;
        let factored = Factored { before: self.target, log_factors, exponents };
        Ok(Self { target, factored: Some(factored), ..self })
    }

    /// Return the target of the scores alone.
    #[must_use]
    pub fn tempered(&self) -> &Boltzmann {
        self.factored.as_ref().map_or(&self.target, |factored| &factored.before)
    }

    /// Return the target at each of some inverse temperatures, with the factors.
    ///
    /// # Errors
    /// As [`temper`].
    pub fn temper(
        &self,
        population: &Population<'_>,
        inverse_temperatures: &[f64],
        threads: usize,
    ) -> Result<Vec<Tempered>> {
        let (rows, rewards) = (self.rows(population), population.rewards);
        let Some(Factored { log_factors, .. }) = &self.factored else {
            return temper(rows, rewards, inverse_temperatures, threads);
        };
        let at = |&b: &f64| {
            let exponents = exponents(self.scores(rewards), log_factors, b);
            let found = temper(Rows { scores: &exponents, ..rows }, rewards, &[1.0], threads)?;
            Ok(found.into_iter().map(move |one| Tempered { inverse_temperature: b, ..one }))
        };
        Ok(inverse_temperatures.iter().map(at).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Return what the inverse temperature of the target multiplies: the scores, or with factors whole log-weights.
    pub(super) fn exponents<'a>(&'a self, rewards: &'a [f64]) -> &'a [f64] {
        self.factored.as_ref().map_or_else(|| self.scores(rewards), |factored| &factored.exponents)
    }
}

/// Return `b s_i + log f_i` of each row; NaN where there is no score.
fn exponents(scores: &[f64], log_factors: &[f64], b: f64) -> Vec<f64> {
    scores.iter().zip(log_factors).map(|(score, factor)| b * score + factor).collect()
}
