//! The Boltzmann target as arrays, one log weight a row.

use super::fit::{Boltzmann, scaled};
use super::log_weights::Logs;
use super::rows::Rows;
use super::search::Note;
use super::temperature::Temperature;
use crate::error::Result;
use crate::group::Scopes;
use crate::numeric::parallel;
use crate::numeric::simd::wide;

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
/// [`Error::Length`](crate::Error::Length) where scores and scopes differ in rows;
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite score, or a log Z beyond f64;
/// [`Error::Number`](crate::Error::Number) for a spread beyond f64, or an infinite divergence or inverse temperature;
/// [`Error::Fraction`](crate::Error::Fraction) for a share outside (0, 1];
/// [`Error::Negative`](crate::Error::Negative) for a negative divergence or inverse temperature.
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
