//! The keys of all rows of a log, in as few bytes as their ids take.

use std::ops::Range;

use crate::rng::Key;
use crate::rng::xxh3::Hashes;

/// One [`Key`] a row.
///
/// ```
/// use karl_core::{Key, Keys};
/// let keys = Keys::sorted(vec![4, 9, 9]);
/// assert_eq!((keys.len(), keys.get(0), keys.get(2)), (3, Key { id: 4, ordinal: 0 }, Key { id: 9, ordinal: 1 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(KeyColumns);

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyColumns {
    Indices(usize),
    Sorted(Vec<u128>),
    Given(Vec<Key>),
}

impl Keys {
    /// Return the keys of an array without ids: the index is the id. No memory.
    #[must_use]
    pub const fn of_indices(rows: usize) -> Self {
        Self(KeyColumns::Indices(rows))
    }

    /// Return the keys of records by ascending id, as a log has them: the ordinal of a row is its rank among its
    /// equal neighbours. 16 bytes a row.
    ///
    /// Ordinals mean nothing where the ids do not ascend.
    #[must_use]
    pub fn sorted(ids: Vec<u128>) -> Self {
        debug_assert!(ids.is_sorted(), "the ids of a log ascend");
        Self(KeyColumns::Sorted(ids))
    }

    /// Keys as they are. 32 bytes a row.
    #[must_use]
    pub const fn given(keys: Vec<Key>) -> Self {
        Self(KeyColumns::Given(keys))
    }

    /// Return the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        match &self.0 {
            KeyColumns::Indices(rows) => *rows,
            KeyColumns::Sorted(ids) => ids.len(),
            KeyColumns::Given(keys) => keys.len(),
        }
    }

    /// Return whether there is no row.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the key of `row`, which has to be below [`len`](Self::len) as for a slice.
    ///
    /// Cost: constant; a binary search where the row before has the same id.
    #[must_use]
    pub fn get(&self, row: usize) -> Key {
        match &self.0 {
            KeyColumns::Indices(_) => Key::of_index(row),
            KeyColumns::Sorted(ids) => Key { id: ids[row], ordinal: ordinal(ids, row) },
            KeyColumns::Given(keys) => keys[row],
        }
    }

    /// The hashes of a run of rows, which has to be as long as `out`.
    #[inline(always)]
    pub(crate) fn hash(&self, rows: Range<usize>, hashes: &Hashes, out: &mut [u64]) {
        let rows = out.iter_mut().zip(rows);
        match &self.0 {
            KeyColumns::Indices(_) => rows.for_each(|(hash, row)| *hash = hashes.of_index(row)),
            KeyColumns::Sorted(_) => rows.for_each(|(hash, row)| *hash = hashes.of(self.get(row))),
            KeyColumns::Given(keys) => rows.for_each(|(hash, row)| *hash = hashes.of(keys[row])),
        }
    }

    /// Return the number of rows that have the id of an earlier one. Cost: one pass.
    #[must_use]
    pub fn repeated(&self) -> usize {
        match &self.0 {
            KeyColumns::Indices(_) => 0,
            KeyColumns::Sorted(ids) => ids.iter().zip(ids.iter().skip(1)).filter(|(a, b)| a == b).count(),
            KeyColumns::Given(keys) => keys.iter().filter(|key| key.ordinal > 0).count(),
        }
    }

    /// Return the keys of all rows in their order.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Key> + ExactSizeIterator + Clone {
        (0..self.len()).map(|row| self.get(row))
    }
}

/// Return the number of rows before `row` that have its id. Most ids stand once, and need no search.
fn ordinal(ids: &[u128], row: usize) -> u64 {
    let (before, id) = (&ids[..row], ids[row]);
    if before.last() != Some(&id) {
        return 0;
    }
    (row - before.partition_point(|&other| other < id)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_their_rows_in_every_form() {
        let ids = [3, 3, 3, 5, 8, 8, u128::MAX];
        let ordinals = [0, 1, 2, 0, 0, 1, 0];
        let wanted: Vec<Key> =
            ids.into_iter().zip(ordinals).map(|(id, ordinal)| Key { id, ordinal }).collect();
        for keys in [Keys::sorted(ids.to_vec()), Keys::given(wanted.clone())] {
            assert_eq!(keys.iter().collect::<Vec<_>>(), wanted);
            assert_eq!((keys.len(), keys.is_empty(), keys.repeated()), (7, false, 3));
        }
        assert_eq!(Keys::of_indices(3).iter().collect::<Vec<_>>(), [0, 1, 2].map(Key::of_index));
        assert!(Keys::sorted(Vec::new()).is_empty() && Keys::of_indices(0).is_empty());
        assert_eq!((Keys::sorted(Vec::new()).repeated(), Keys::of_indices(3).repeated()), (0, 0));
    }

    #[test]
    fn one_id_a_million_times_is_numbered_from_the_first() {
        let keys = Keys::sorted(vec![7; 1_000_000]);
        assert!(keys.iter().enumerate().all(|(row, key)| key == Key { id: 7, ordinal: row as u64 }));
    }
}
