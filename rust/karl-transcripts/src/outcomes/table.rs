//! Outcomes of a log as columns, to look at them.

use karl_core::correlation::{Correlation, Known, correlation};
use karl_log::cancel::Watch;
use karl_log::error::Result;
use karl_log::format::Component;
use karl_log::json::project::{Path, PathTree, scan};
use karl_log::log::Log;
use karl_log::second_pass::fetch_each;

/// Key of an outcome in a record.
const OUTCOME: &str = "outcome";

/// Names of components, in the order of records.
const COMPONENTS: [&str; Component::ALL.len()] = {
    let mut names = [""; Component::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Component::ALL[at].name();
        at += 1;
    }
    names
};

/// Outcomes of a log at a glance.
#[derive(Clone, Debug)]
pub struct OutcomeTable {
    /// Records.
    pub rows: u64,
    /// Records with a known component.
    pub rows_known: u64,
    /// Components that are known somewhere.
    pub components: Vec<ComponentFacts>,
    /// Correlations of two components that both vary.
    pub correlations: Vec<(&'static str, &'static str, Correlation)>,
}

/// Facts about one component.
#[derive(Clone, Debug)]
pub struct ComponentFacts {
    /// Name.
    pub name: &'static str,
    /// Count, mean and constancy.
    pub known: Known,
    /// Correlation with the length of the conversation in bytes.
    pub length: Option<Correlation>,
}

/// Return the outcomes of a log; None if no record that was looked at has one. Records are read again.
///
/// # Errors
/// As [`fetch_each`].
pub fn outcome_table(log: &Log, threads: usize, watch: &Watch) -> Result<Option<OutcomeTable>> {
    if !log.inputs.iter().any(|input| input.keys.iter().any(|key| key == OUTCOME)) {
        return Ok(None);
    }
    let rows: Vec<u32> = (0..u32::try_from(log.len()).unwrap_or(u32::MAX)).collect();
    let paths = COMPONENTS.iter().map(|name| format!("{OUTCOME}.{name}")).chain(["messages".to_owned()]);
    let tree = PathTree::new(&paths.filter_map(|path| Path::parse(&path).ok()).collect::<Vec<_>>());
    let values = fetch_each(log, &rows, threads, watch, |_, record| row(&record, &tree))?;
    let column = |at: usize| values.iter().map(|row| row[at]).collect::<Vec<f64>>();
    let columns: Vec<Vec<f64>> = (0..=COMPONENTS.len()).map(column).collect();
    Ok(Some(table(&columns, &values)))
}

/// Numbers of one record: its components, and the length of its conversation; NaN if missing.
type Row = [f64; COMPONENTS.len() + 1];

fn row(record: &[u8], tree: &PathTree) -> Row {
    let mut places = [const { None }; COMPONENTS.len() + 1];
    let mut row = [f64::NAN; COMPONENTS.len() + 1];
    // Only damage inside an unwanted value is not found, and a row of a log was scanned before.
    if scan(record, tree, &mut places).is_err() {
        return row;
    }
    for (value, place) in row.iter_mut().zip(&places).take(COMPONENTS.len()) {
        let text = place.clone().and_then(|place| std::str::from_utf8(&record[place]).ok());
        *value = text
            .and_then(|text| text.parse().ok())
            .filter(|number: &f64| number.is_finite())
            .unwrap_or(*value);
    }
    if let Some(messages) = &places[COMPONENTS.len()] {
        row[COMPONENTS.len()] = messages.len() as f64;
    }
    row
}

fn table(columns: &[Vec<f64>], rows: &[Row]) -> OutcomeTable {
    let (lengths, columns) =
        columns.split_last().map_or((&[][..], columns), |(last, rest)| (&last[..], rest));
    let facts = |(&name, column): (&&'static str, &Vec<f64>)| ComponentFacts {
        name,
        known: Known::of(column),
        length: correlation(column, lengths),
    };
    let components =
        COMPONENTS.iter().zip(columns).map(facts).filter(|facts| facts.known.count > 0).collect();
    let mut correlations = Vec::new();
    for (at, one) in columns.iter().enumerate() {
        for (other, two) in columns.iter().enumerate().skip(at + 1) {
            let found = correlation(one, two);
            correlations.extend(found.map(|found| (COMPONENTS[at], COMPONENTS[other], found)));
        }
    }
    let is_known = |row: &&Row| row[..COMPONENTS.len()].iter().any(|value| !value.is_nan());
    let rows_known = rows.iter().filter(is_known).count() as u64;
    OutcomeTable { rows: rows.len() as u64, rows_known, components, correlations }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_numbers_of_its_outcome_and_the_length_of_its_messages() {
        let paths = COMPONENTS.iter().map(|name| format!("outcome.{name}")).chain(["messages".to_owned()]);
        let tree = PathTree::new(&paths.map(|path| Path::parse(&path).unwrap()).collect::<Vec<_>>());
        let record = br#"{"outcome":{"tests":1.0,"merged":null,"survived":0.25,"redo":3},"messages":[1,2]}"#;
        let found = row(record, &tree);
        let known: Vec<_> = found.iter().enumerate().filter(|(_, value)| !value.is_nan()).collect();
        assert_eq!(known, [(2, &0.25), (5, &1.0), (12, &5.0)]);
    }
}
