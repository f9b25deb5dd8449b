//! Outcomes of a log at a glance.

use karl_core::correlation::Correlation;
use karl_transcripts::outcomes::table::{ComponentFacts, OutcomeTable};
use pyo3::prelude::*;

/// Outcomes of a log, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct OutcomeFacts {
    rows: u64,
    rows_known: u64,
    components: Vec<OneComponent>,
    correlations: Vec<Together>,
}

/// Facts about one component.
#[derive(IntoPyObject)]
pub(crate) struct OneComponent {
    name: &'static str,
    known: u64,
    mean: f64,
    constant: bool,
    /// Rows, and correlation with the length of the conversation.
    length: Option<(u64, f64)>,
}

/// Correlation of two components.
#[derive(IntoPyObject)]
pub(crate) struct Together {
    components: (&'static str, &'static str),
    rows: u64,
    correlation: f64,
}

impl From<OutcomeTable> for OutcomeFacts {
    fn from(table: OutcomeTable) -> Self {
        let together = |(one, other, found): (_, _, Correlation)| Together {
            components: (one, other),
            rows: found.count,
            correlation: found.coefficient,
        };
        Self {
            rows: table.rows,
            rows_known: table.rows_known,
            components: table.components.into_iter().map(OneComponent::from).collect(),
            correlations: table.correlations.into_iter().map(together).collect(),
        }
    }
}

impl From<ComponentFacts> for OneComponent {
    fn from(facts: ComponentFacts) -> Self {
        Self {
            name: facts.name,
            known: facts.known.count,
            mean: facts.known.mean,
            constant: facts.known.constant,
            length: facts.length.map(|found| (found.count, found.coefficient)),
        }
    }
}
