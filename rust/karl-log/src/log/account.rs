//! What was found in one file.

use std::collections::BTreeMap;

use crate::rejects::{Bad, PLACES_KEPT, Reason, Tally};

/// What was found in one file.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Records and whatever stood in place of one.
    pub read: u64,
    /// Rows that are no records, by reason.
    pub bad: BTreeMap<Reason, u64>,
    /// The first of them.
    pub places: Vec<Bad>,
    /// Blank lines: no rows.
    pub blank: u64,
    /// Lines on which several records had been welded together; all were read.
    pub welded: u64,
    /// Records in which a wanted key stood twice; the last one counts.
    pub duplicate_keys: u64,
    /// Records without an id, which have the hash of their bytes in its place.
    pub without_id: u64,
    /// Records whose domain is a list, an object or no text, where nobody asked for the domain: they have none.
    pub unusable_domains: u64,
}

impl Account {
    /// Adds what was found in the next range of the file.
    pub(crate) fn add(&mut self, tally: &Tally, lines_before: u64) {
        self.read += tally.rows + tally.bad.values().sum::<u64>();
        for (&reason, &count) in &tally.bad {
            *self.bad.entry(reason).or_default() += count;
        }
        let room = PLACES_KEPT - self.places.len();
        self.places.extend(
            tally.places.iter().take(room).map(|bad| Bad { line: bad.line + lines_before, ..bad.clone() }),
        );
        self.blank += tally.blank;
        self.welded += tally.welded;
        self.duplicate_keys += tally.duplicate_keys;
        self.without_id += tally.without_id;
        self.unusable_domains += tally.unusable_domains;
    }
}
