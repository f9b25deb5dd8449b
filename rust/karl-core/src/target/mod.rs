//! Weights of rows: the Boltzmann target, its log partition, and its distance from uniform.
//!
//! ```text
//! w_i = exp(b s_i) / Z(scope of i),    Z(scope) = sum over its rows of exp(b s)
//! ```
//!
//! `s` is the score, `b` the inverse temperature: 0 is uniform, large is "the best only". A scope is a set of rows
//! that are normalised together: the whole log, or each group of a partition; each scope has total weight 1. Weights
//! stay logarithms throughout; `exp(b s)` itself overflows at b s = 710.
//!
//! Sums of weights are exact ([`crate::numeric::exact`]): they do not depend on the order of the rows, nor on
//! threads.
//!
//! The inverse temperature is given, or found from a wanted effective sample size (ESS). The effect of `b` depends on
//! the scale of the reward, that of a share of ESS does not. A wanted size that cannot be reached is not an error:
//! the nearest is taken, and [`Note`] gives the reason.

mod boltzmann;
mod likelihood;
mod sums;
mod temperature;
mod tpo;

pub use boltzmann::{Boltzmann, StreamSums, Target, Tempered, boltzmann, temper};
pub use likelihood::{awr_weights, rwr_weights};
pub use sums::Rows;
pub use temperature::{Note, Temperature};
pub use tpo::{Tpo, tpo};

pub(crate) use temperature::check_temperature;
