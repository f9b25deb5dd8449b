//! Outcome of one session, with the evidence for each component, and the reward that it is worth; settings and account
//! of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use karl_core::reward::{complement, composite_of};
use karl_log::format::Component;
use karl_log::log::Account;
use karl_redact::Protection;
use karl_redact::secrets::SecretCounts;
use serde::Serialize;

use crate::convert::{self, TranscriptKind};

/// Settings of outcomes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Kind of transcripts, if it is not to be detected.
    pub kind: Option<TranscriptKind>,
    /// True to take transcripts alone, and to set the reward of each trajectory by its outcome.
    pub rate: bool,
    /// Reports of graders.
    pub reports: Vec<PathBuf>,
    /// Repositories to compare every session with; if there are none, that of its working directory is taken.
    pub repositories: Vec<PathBuf>,
    /// Days after which a commit is judged.
    pub after_days: u32,
    /// Pull requests that `gh` saved.
    pub pull_requests: Vec<PathBuf>,
    /// Maximum length of a line or document in bytes.
    pub max_line_bytes: usize,
    /// Number of threads; at least one is used.
    pub threads: usize,
    /// What is replaced in the trajectories, once they are judged.
    pub protection: Protection,
}

/// Known components of a session, with their evidence.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    values: [Option<f64>; Component::ALL.len()],
    /// Evidence, in the order in which it was found.
    pub evidence: Vec<Evidence>,
    /// Commits of the session.
    pub attributed: Vec<Attributed>,
}

/// Reason for the value of a component, and its place.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Evidence {
    /// Name of the component.
    pub component: &'static str,
    /// Value.
    pub value: f64,
    /// Index of the message in `messages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<usize>,
    /// Id of the tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Hash of the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// File that holds the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Reason in words.
    pub why: String,
}

/// Commit of a session.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Attributed {
    /// Hash.
    pub commit: String,
    /// Rule that attributed it.
    pub rule: &'static str,
    /// Number of its lines that the session wrote.
    pub lines: u64,
}

impl Outcome {
    /// Return the value of a component; `None` without evidence.
    #[must_use]
    pub fn get(&self, component: Component) -> Option<f64> {
        self.values[component as usize]
    }

    /// Set a component, with the evidence for it.
    pub fn set(&mut self, component: Component, value: f64, evidence: Evidence) {
        self.values[component as usize] = Some(value);
        self.evidence.push(Evidence { component: component.name(), value, ..evidence });
    }

    /// Add what a repository shows. Work may be in several: one commit or revert in any of them counts.
    pub(super) fn absorb(&mut self, other: Self) {
        for (known, found) in self.values.iter_mut().zip(other.values) {
            *known = match (*known, found) {
                (Some(one), Some(other)) => Some(one.max(other)),
                (one, other) => one.or(other),
            };
        }
        self.evidence.extend(other.evidence);
        self.attributed.extend(other.attributed);
    }

    /// Make a component unknown, without its evidence.
    pub(super) fn unset(&mut self, component: Component) {
        self.values[component as usize] = None;
        self.evidence.retain(|evidence| evidence.component != component.name());
    }

    /// Iterate over all components, known or not.
    pub fn values(&self) -> impl Iterator<Item = (Component, Option<f64>)> {
        Component::ALL.into_iter().map(|component| (component, self.get(component)))
    }

    /// Return whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }
}

/// Account of a run: rows read = written + dropped + bad.
#[derive(Clone, Debug, Default)]
pub struct Report {
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

impl Report {
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

/// Weight of a component in the reward of `--rate outcomes`; the weights, in 64ths, add up to 1. What the work itself
/// earned counts most. A session that was not stopped or asked for again may still be worth nothing, and
/// `attribution` is a share of the lines, not their worth: these have none.
#[must_use]
pub const fn weight(component: Component) -> f64 {
    match component {
        Component::Verified | Component::Survived | Component::Tests => 12.0 / 64.0,
        Component::Merged | Component::Reverted | Component::Corrected => 6.0 / 64.0,
        Component::Committed => 4.0 / 64.0,
        Component::Build | Component::Lint => 3.0 / 64.0,
        Component::Attribution | Component::Interrupted | Component::AskedAgain => 0.0,
    }
}

/// Return the reward of an outcome: the weight of an unknown component is shared among the others; `None` if
/// none with a weight is known.
pub(super) fn reward(outcome: &Outcome) -> Option<f64> {
    let weighed = outcome.values().filter(|(component, _)| weight(*component) > 0.0);
    let (values, weights): (Vec<f64>, Vec<f64>) = weighed
        .map(|(component, value)| {
            let value = value.map(|value| if component.is_cost() { complement(value) } else { value });
            (value.unwrap_or(f64::NAN), weight(component))
        })
        .unzip();
    Some(composite_of(&values, &weights, &vec![true; values.len()])).filter(|reward| reward.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Evidence;
    use super::*;

    #[test]
    fn weights_of_unknown_components_are_shared() {
        assert!((Component::ALL.into_iter().map(weight).sum::<f64>() - 1.0).abs() < f64::EPSILON);
        let mut outcome = Outcome::default();
        assert_eq!(reward(&outcome), None);
        outcome.set(Component::Interrupted, 0.0, Evidence::default());
        assert_eq!(reward(&outcome), None);
        outcome.set(Component::Tests, 1.0, Evidence::default());
        assert_eq!(reward(&outcome), Some(1.0));
        outcome.set(Component::Reverted, 1.0, Evidence::default());
        assert!((reward(&outcome).unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }
}
