//! Account of a search for pairs: candidates = written + dropped, by reason.

use std::collections::BTreeMap;

use karl_redact::secrets::SecretCounts;

use super::row::Drop;
use crate::convert::{Report, report::CountsByName};

/// Account of a search for pairs.
#[derive(Clone, Debug, Default)]
pub struct PairsReport {
    /// Account of the conversion before it.
    pub converted: Report,
    /// Sessions, without sub-agents and abandoned branches.
    pub sessions: u64,
    /// Candidates, by the reason why one is preferred.
    pub candidates: CountsByName,
    /// Pairs written, by that reason.
    pub pairs: CountsByName,
    /// Candidates that are not written, by name.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Secrets replaced, by family.
    pub secrets: SecretCounts,
    /// Bytes written.
    pub written_bytes: u64,
}

impl PairsReport {
    pub(super) fn new(converted: Report) -> Self {
        Self { converted, ..Self::default() }
    }

    /// Count a candidate, and return its line; empty if it is dropped.
    pub(super) fn count(&mut self, reason: &'static str, made: Result<String, Drop>) -> String {
        *self.candidates.entry(reason).or_default() += 1;
        match made {
            Ok(line) => {
                *self.pairs.entry(reason).or_default() += 1;
                line
            }
            Err(drop) => {
                *self.dropped.entry(drop.name()).or_default() += 1;
                String::new()
            }
        }
    }

    /// Return the number of pairs written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.pairs.values().sum()
    }
}
