//! Records of rollouts in several files: copies of a log, snapshots of one, logs with overlapping ends.
//!
//! A record with an id of its own is one rollout in every file, as long as no file holds that id twice. A
//! record without such an id may equal another by chance (two short answers to one prompt): it is a copy only
//! if all of its file is in another file. Equal means equal values: spaces, the order of keys and nulls are
//! ignored.

use std::collections::{HashMap, HashSet};

use karl_log::columns::{RowSink, ScannedRow};
use karl_log::format::Fields;
use karl_log::json::reference_parser::{self, lookup};
use karl_log::json::scalar::join_parts;
use serde_json::Value;

use super::json::mended;
use super::lineage::hash;
use super::lineage::hash_of;
use super::report::LineCounts;

/// One record of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copyable {
    /// File, and offset of the first byte in it.
    pub(super) place: (usize, u64),
    /// Hash of its values.
    pub(super) values: u64,
    /// Hash of its own id; None if it has none.
    pub(super) id: Option<u64>,
}

/// Records of a part of a file before conversion. Damaged ones are left to the conversion.
pub(super) struct SourceRecords<'a> {
    fields: &'a Fields,
    pub(super) records: Vec<Copyable>,
}

impl<'a> SourceRecords<'a> {
    /// Create an empty list.
    pub(super) fn of(fields: &'a Fields) -> Self {
        Self { fields, records: Vec::new() }
    }
}

impl RowSink for SourceRecords<'_> {
    fn push(&mut self, row: &ScannedRow<'_>) {
        let place = row.spot.place(row.length);
        let text = mended(row.record, &mut LineCounts::default());
        if let Some(record) = text.and_then(|text| reference_parser::parse(&text).ok()) {
            let id = id(&record, self.fields).map(|id| hash("id", id.as_bytes()));
            let place = (place.input, place.offset);
            self.records.push(Copyable { place, values: hash_of(&record), id });
        }
    }
}

/// Return the id in a record itself.
pub(super) fn id(record: &Value, fields: &Fields) -> Option<String> {
    let part = |path| {
        let part = lookup(record, path).filter(|part| !part.is_null())?;
        Some(part.as_str().map_or_else(|| part.to_string(), str::to_owned))
    };
    fields.id.iter().map(part).collect::<Option<Vec<_>>>().and_then(join_parts)
}

/// Count of each record in a file.
type CopyCounts = HashMap<u64, u32>;

/// Return the places of records that are elsewhere too; one copy of each is kept.
pub(super) fn copies(mut records: Vec<Copyable>, files: usize) -> HashSet<(usize, u64)> {
    records.sort_unstable_by_key(|record| record.place);
    let mut counts = vec![CopyCounts::new(); files];
    for record in &records {
        *counts[record.place.0].entry(record.values).or_default() += 1;
    }
    let contained = contained(&counts);
    let repeated = repeated_ids(&records);
    let mut seen = HashSet::new();
    let is_copy = |record: &&Copyable| {
        let named = record.id.is_some_and(|id| !repeated.contains(&id));
        contained[record.place.0] || (named && !seen.insert(record.values))
    };
    records.iter().filter(is_copy).map(|record| record.place).collect()
}

/// Return the ids that some file holds twice: they do not identify a rollout.
fn repeated_ids(records: &[Copyable]) -> HashSet<u64> {
    let mut seen = HashSet::new();
    let again = |record: &Copyable| record.id.filter(|id| !seen.insert((record.place.0, *id)));
    records.iter().filter_map(again).collect()
}

/// Return whether another file holds all of a file's records; of equal files the first is kept.
fn contained(counts: &[CopyCounts]) -> Vec<bool> {
    let mut holders: HashMap<u64, Vec<usize>> = HashMap::new();
    for (file, records) in counts.iter().enumerate() {
        for &record in records.keys() {
            holders.entry(record).or_default().push(file);
        }
    }
    let rarest =
        |records: &CopyCounts| records.keys().map(|record| &holders[record]).min_by_key(|files| files.len());
    let is_contained = |(file, records): (usize, &CopyCounts)| {
        let within = |&other: &usize| other != file && holds(&counts[other], records, other < file);
        rarest(records).is_some_and(|files| files.iter().any(within))
    };
    counts.iter().enumerate().map(is_contained).collect()
}

/// Return whether a file holds every record of another at least as often, and more in total unless `equal`
/// files count.
fn holds(whole: &CopyCounts, part: &CopyCounts, equal: bool) -> bool {
    let all = part.iter().all(|(record, count)| whole.get(record).is_some_and(|held| held >= count));
    all && (equal || whole != part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies_of(files: &[&[(u64, Option<u64>)]]) -> Vec<(usize, u64)> {
        let record = |file, (at, &(values, id)): (usize, &(u64, Option<u64>))| Copyable {
            place: (file, at as u64),
            values,
            id,
        };
        let records = files
            .iter()
            .enumerate()
            .flat_map(|(file, held)| held.iter().enumerate().map(move |one| record(file, one)));
        let mut found: Vec<_> = copies(records.collect(), files.len()).into_iter().collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_file_that_another_holds_is_a_copy_with_ids_or_without() {
        for id in [None, Some(7)] {
            let whole = [(1, id), (1, id), (2, id), (3, id)];
            assert_eq!(copies_of(&[&whole, &whole]), [(1, 0), (1, 1), (1, 2), (1, 3)]);
            assert_eq!(copies_of(&[&whole[..2], &whole]), [(0, 0), (0, 1)]);
            assert_eq!(copies_of(&[&whole, &whole[1..2], &whole]), [(1, 0), (2, 0), (2, 1), (2, 2), (2, 3)]);
        }
    }

    #[test]
    fn equal_records_without_ids_in_files_that_differ_are_rollouts_of_their_own() {
        assert!(copies_of(&[&[(1, None), (2, None)], &[(1, None), (3, None)]]).is_empty());
        assert!(
            copies_of(&[&[(1, None), (2, None), (2, None)], &[(1, None), (1, None), (2, None)]]).is_empty()
        );
    }

    #[test]
    fn a_record_with_an_id_of_its_own_is_one_rollout_in_files_that_overlap() {
        let (one, two) = (&[(1, Some(1)), (2, Some(2))], &[(2, Some(2)), (3, Some(3))]);
        assert_eq!(copies_of(&[one, two]), [(1, 0)]);
        // Different values under one id, and an id that one file holds twice.
        assert!(copies_of(&[one, &[(9, Some(2)), (3, Some(3))]]).is_empty());
        assert!(copies_of(&[one, &[(2, Some(2)), (3, Some(2))]]).is_empty());
    }
}
