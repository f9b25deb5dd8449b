//! The range of log Z over the scopes of a selection.

use super::Selection;
use crate::filter::Verdict;
use crate::group::Groups;

/// log Z over the scopes that have rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogZRange {
    /// The number of scopes that have rows.
    pub scopes: usize,
    /// The smallest log Z; none without such scopes.
    pub min: Option<f64>,
    /// The largest log Z; none without such scopes.
    pub max: Option<f64>,
    /// True if every such scope is numbered; else rows without a group are scopes of their own.
    pub numbered: bool,
}

impl Selection {
    /// Return the range of log Z.
    ///
    /// ```text
    /// log Z = b * score    of a row that is a scope of its own
    /// ```
    ///
    /// `rewards` are those of the population, `codes` the codes of its groups. Shapes: `[B]` each. Cost: one pass over the
    /// scopes; one over the rows too, where some are scopes of their own.
    #[must_use]
    pub fn log_z_range(&self, rewards: &[f64], codes: &[u32]) -> LogZRange {
        let filled = self.target.filled;
        let finite = || self.target.log_z().filter(|log| log.is_finite());
        let numbered = finite().count() == filled;
        let rows = if numbered { 0 } else { self.verdicts.len() };
        let scores = self.exponents(rewards);
        let is_alone = |&row: &usize| codes[row] == Groups::NONE && self.verdicts[row] == Verdict::Kept;
        let alone = || (0..rows).filter(is_alone).map(|row| self.target.inverse_temperature * scores[row]);
        LogZRange {
            scopes: filled,
            min: finite().chain(alone()).reduce(f64::min),
            max: finite().chain(alone()).reduce(f64::max),
            numbered,
        }
    }
}
