//! Outcome of one session, with the evidence for each component.

use karl_log::format::Component;
use serde::Serialize;

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
