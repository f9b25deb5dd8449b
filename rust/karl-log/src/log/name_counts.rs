//! Counts by name, in bounded memory.

use std::collections::BTreeMap;

use crate::columns::category::LISTED;

/// Counts by name, of a limited number of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Counts by name.
    pub named: BTreeMap<String, u64>,
    /// Count of all further names.
    pub other: u64,
    /// Count without a name.
    pub without: u64,
    bytes: usize,
}

impl NameCounts {
    pub(crate) fn add(&mut self, name: Option<&str>) {
        let Some(name) = name else { return self.without += 1 };
        let (names, bytes) = LISTED;
        if let Some(count) = self.named.get_mut(name) {
            *count += 1;
        } else if self.named.len() < names && self.bytes + name.len() <= bytes {
            self.bytes += name.len();
            self.named.insert(name.to_owned(), 1);
        } else {
            self.other += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_those_that_are_held_are_counted_together() {
        let mut counts = NameCounts::default();
        let (names, bytes) = LISTED;
        for at in 0..names + 7 {
            counts.add(Some(&at.to_string()));
            counts.add(Some("3"));
            counts.add(None);
        }
        assert_eq!((counts.named.len(), counts.other, counts.without), (names, 7, names as u64 + 7));
        assert_eq!(counts.named["3"], names as u64 + 8);
        let mut counts = NameCounts::default();
        counts.add(Some(&"x".repeat(bytes + 1)));
        assert_eq!((counts.named.len(), counts.other), (0, 1));
    }
}
