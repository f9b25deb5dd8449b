//! Account of a run of outcomes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use karl_log::format::Component;
use karl_log::log::Account;
use karl_redact::secrets::SecretCounts;

use super::outcome::Outcome;
use crate::convert;

/// Account of a run: rows read = written + dropped + bad.
#[derive(Clone, Debug, Default)]
pub struct OutcomesReport {
    /// Account of the conversion of transcripts, if there were any.
    pub converted: Option<convert::Report>,
    /// Files of trajectories that were given, with their counts.
    pub files: Vec<(PathBuf, Account)>,
    /// Trajectories written.
    pub written: u64,
    /// Trajectories dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Trajectories with any known component.
    pub known: u64,
    /// Trajectories whose reward was set by their outcome.
    pub rewarded: u64,
    /// Number of known values of each component, and their sum.
    pub components: [(u64, f64); Component::ALL.len()],
    /// Repositories compared.
    pub repositories: u64,
    /// Trajectories without a comparison, by what is wrong with the repository of their working directory.
    pub without_repository: BTreeMap<&'static str, u64>,
    /// Commits attributed.
    pub commits: u64,
    /// Replaced secrets, by family.
    pub secrets: SecretCounts,
    /// Bytes read, unpacked.
    pub bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl OutcomesReport {
    /// Count a trajectory and its outcome.
    pub(super) fn count(&mut self, outcome: &Outcome) {
        self.written += 1;
        self.known += u64::from(!outcome.is_empty());
        self.commits += outcome.attributed.len() as u64;
        for ((count, sum), (_, value)) in self.components.iter_mut().zip(outcome.values()) {
            *count += u64::from(value.is_some());
            *sum += value.unwrap_or_default();
        }
    }
}
