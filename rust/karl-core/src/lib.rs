//! Rewards to draws: the numerics of karl-fast, and nothing else.
//!
//! ```text
//!  rewards ──► advantage ──► filter ──► target ──► sample ──► rows
//!  groups      credit        eligible   weight     rows of    in the order
//!              of rows       rows       of each    this       of the draw
//!                                       row        seed
//! ```
//!
//! Each stage is a module of pure functions over columns; [`selection`] runs them in a row. There is no
//! Python here, no file, no clock and no generator: a draw is a function of (seed, records, settings), with
//! the same bits on every machine. The keys of a draw take their `exp` and `log` from `libm`; loops over long
//! columns take them from [`numeric::exp`], which has the same bits everywhere too.
//!
//! A missing number is NaN and stays missing; an infinite one is an error that names its row; nothing panics
//! on what a log holds.
//!
//! ```
//! use karl_core::group::Scopes;
//! use karl_core::rng::keys::Keys;
//! use karl_core::sample::{Sampler, Weighted};
//! use karl_core::target::{Temperature, boltzmann};
//!
//! let rewards = [0.2, 0.9, 0.9, 0.4, 0.1, 0.7];
//!
//! let target = boltzmann(&rewards, Scopes::Whole, Temperature::Ess(0.5), 1)?;
//! assert!((target.reached_ess - 3.0).abs() < 1e-9);
//!
//! let keys = Keys::of_indices(6);
//! let mut ranking = Weighted::by_logs(&target.log_weights, &keys)?.ranking(Sampler::Gumbel, 7, 1)?;
//! let drawn = ranking.take(2);
//! assert_eq!(drawn.len(), 2);
//! # Ok::<(), karl_core::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod advantage;
pub mod check;
pub mod correlation;
pub mod curriculum;
pub mod diversity;
pub mod error;
pub mod filter;
pub mod group;
pub mod kl;
pub mod learnability;
pub mod logsumexp;
pub mod numeric;
pub mod objective;
pub mod output_order;
pub mod replay;
pub mod resampling;
pub mod reward;
pub mod rng;
pub mod sample;
pub mod selection;
pub mod sketch;
pub mod split;
pub mod stream;
pub mod summary;
pub mod target;

pub use advantage::Score;
pub use error::{Error, Result};
pub use filter::{Rules, Verdict};
pub use group::offsets::Offsets;
pub use group::{Groups, Scopes};
pub use numeric::Real;
pub use numeric::radix::Scratch;
pub use rng::keys::Keys;
pub use rng::{Key, Purpose};
pub use sample::{Copies, Ranking, Sampler, Weighted};
pub use selection::{Population, Selection, SelectionSettings, select, select_scored, select_weighted};
pub use summary::Summary;
pub use target::{Boltzmann, Rows, Target, Temperature, boltzmann};

/// The examples of README.md as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
