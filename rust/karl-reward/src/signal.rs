//! Signals and their components.

use crate::python_arithmetic::{clip, round4};

/// A named part of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalComponent {
    /// KARL's name of it.
    pub name: &'static str,
    /// Rounded to four decimals.
    pub value: f64,
    /// True if KARL writes it as an integer.
    pub whole: bool,
}

/// A signal: its score in `[0, 1]`, not rounded, and its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// The score.
    pub score: f64,
    /// The parts, in KARL's order.
    pub components: Vec<SignalComponent>,
}

/// A signal as the formula gives it, without memory of its own: what only the score is read of costs nothing more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<const N: usize> {
    pub(crate) score: f64,
    parts: [(&'static str, f64); N],
}

impl<const N: usize> Parts<N> {
    /// Clip the score to `[0, 1]`.
    #[inline]
    pub(crate) fn new(score: f64, parts: [(&'static str, f64); N]) -> Self {
        Self { score: clip(score), parts }
    }
}

impl<const N: usize> From<Parts<N>> for Signal {
    fn from(Parts { score, parts }: Parts<N>) -> Self {
        let part = |(name, value)| SignalComponent { name, value: round4(value), whole: false };
        Self { score, components: parts.map(part).to_vec() }
    }
}
