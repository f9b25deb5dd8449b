//! Diversity of a set of rollouts, and of a draw from it.
//!
//! | question | point | file |
//! |---|---|---|
//! | how many n-grams differ | [`distinct_n()`] | `ngram.rs` |
//! | how much of a sequence occurs in the others | [`self_bleu()`] | `bleu.rs` |
//! | how many different sequences there are | [`vendi_ngrams`], [`ngram_gram`] | `vendi.rs` |
//! | what k attempts reach | [`pass_at_k`], [`best_at_k`] | `attempts.rs` |
//! | how evenly categories are used | [`entropy`], [`evenness()`], [`effective_number`], [`gini`], [`coverage`] | `evenness.rs` |
//! | whether outputs depend on their inputs | [`mutual_information`] | `evenness.rs` |
//!
//! Laws, each with a test: a repeated set has the diversity of the set once (`vendi_ngrams`, `entropy`, `gini`);
//! the names of tokens, categories and groups do not matter; the effective numbers of n things lie in 1 to n.
//!
//! Where there is nothing to measure (no n-gram, no weight, fewer attempts than k) the result is NaN for "missing",
//! never 0, which would mean "no diversity".

mod attempts;
mod bleu;
mod evenness;
mod ngram;
mod vendi;

pub use attempts::{best_at_k, pass_at_k};
pub use bleu::{Smoothing, self_bleu};
pub use evenness::{Information, coverage, effective_number, entropy, evenness, gini, mutual_information};
pub use ngram::{Sequences, distinct_n};
pub use vendi::{Gram, ngram_gram, vendi_ngrams};
