//! Which rows are drawn: weights in, an order of rows out.
//!
//! | point | law | file |
//! |---|---|---|
//! | [`Sampler::Gumbel`] | k of n without replacement, Plackett-Luce | [`gumbel`] |
//! | [`Sampler::All`] | every row that has a weight, in row order | here |
//!
//! A sampler turns log weights into one key a row; the draw is the rows by descending key. The first k of a
//! [`Ranking`] are the draw of k, so a row that fails later is replaced by the next without a second draw.

pub mod gumbel;
mod ranking;

pub use ranking::{Ranking, cap_per_group};

use crate::error::{Result, check_length, check_logs};
use crate::keys::Keys;

/// The axis: by which law rows are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// Without replacement, in proportion to the weights of what is left.
    Gumbel,
    /// Every row that has a weight, in row order; its log weight goes with it.
    All,
}

impl Sampler {
    /// The key of each row: descending, they are the order of the draw; minus infinity is never drawn.
    ///
    /// Shapes: log weights and keys `[B]`. Cost: one hash and two `log` a row for [`Sampler::Gumbel`].
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) where log weights and keys differ in rows;
    /// [`Error::NotFinite`](crate::Error::NotFinite) for a log weight that is NaN or plus infinity.
    pub fn keys(self, log_weights: &[f64], keys: &Keys, seed: u64) -> Result<Vec<f64>> {
        match self {
            Self::Gumbel => gumbel::keys(log_weights, keys, seed),
            Self::All => equal_keys(log_weights, keys),
        }
    }

    /// The name the command line and the manifest use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gumbel => "gumbel",
            Self::All => "all",
        }
    }
}

/// Equal keys for rows that have a weight: ties stand in row order.
fn equal_keys(log_weights: &[f64], keys: &Keys) -> Result<Vec<f64>> {
    check(log_weights, keys)?;
    Ok(log_weights.iter().map(|&log| if log > f64::NEG_INFINITY { 0.0 } else { log }).collect())
}

fn check(log_weights: &[f64], keys: &Keys) -> Result<()> {
    check_length("keys", keys.len(), log_weights.len())?;
    check_logs("log weight", log_weights)
}
