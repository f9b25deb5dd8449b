//! Counts of one file.

use std::collections::BTreeMap;

use crate::rejects::{Bad, FileTally, OrderKinds, PLACES_KEPT, RejectReason};

/// Counts of one file.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Number of rows: records and rejected rows.
    pub read: u64,
    /// Rejected rows, by reason.
    pub bad: BTreeMap<RejectReason, u64>,
    /// Places of the first of them.
    pub places: Vec<Bad>,
    /// Blank lines: not rows.
    pub blank: u64,
    /// Lines with several concatenated records; all were read.
    pub welded: u64,
    /// Records with a duplicate of a wanted key; the last one counts.
    pub duplicate_keys: u64,
    /// Records without an id, for which the hash of their bytes is used.
    pub without_id: u64,
    /// Records with a domain that is a list, an object or invalid text, if the caller did not name the
    /// domain: they have none.
    pub unusable_domains: u64,
    /// First place of each kind of order.
    pub orders: OrderKinds,
}

impl Account {
    /// Add the counts of the next range of the file.
    pub fn add(&mut self, tally: &FileTally, lines_before: u64) {
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
        self.orders.add(tally.orders, lines_before);
    }
}
