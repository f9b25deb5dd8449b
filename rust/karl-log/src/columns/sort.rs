//! Order of the rows of one bin.
//!
//! No record isolates it; see [`super::chunked_vec`] for the time of all columns.

use super::bins::{BIN_BITS, BinPart};
use super::locations::starts;
use crate::counting_sort::counting_sort;

/// Return the rank of each row of a bin, part after part. Rows with equal ids and digests are equal records:
/// their place makes the order independent of threads.
pub(super) fn ranks(parts: &[BinPart<'_>]) -> Vec<u32> {
    let ids = parts.iter().flat_map(|part| part.bin.ids.iter());
    let mut keys = sorted(&(0..).zip(ids).map(|(row, id)| key(id, row)).collect::<Vec<_>>());
    let alike = |&a: &u64, &b: &u64| a >> u32::BITS == b >> u32::BITS;
    let starts = starts(parts.iter().map(|part| part.bin.ids.len()));
    let tie = |key: u64| {
        let part = starts.partition_point(|&start| start <= row(key)).saturating_sub(1);
        let (part, row) = (&parts[part], (row(key) - starts[part]) as usize);
        let rank = part.bin.rows.get(row).and_then(|held| part.records.rank(held.record));
        (part.bin.ids.get(row), rank)
    };
    for same in keys.chunk_by_mut(alike).filter(|same| same.len() > 1) {
        same.sort_by_cached_key(|&key| tie(key));
    }
    inverse(&keys)
}

/// Return the position of each row among the keys.
fn inverse(keys: &[u64]) -> Vec<u32> {
    let mut ranks = vec![0; keys.len()];
    for (rank, &key) in (0..).zip(keys) {
        ranks[row(key) as usize] = rank;
    }
    ranks
}

/// Return a sort key: the bits of an id after those of its bin, which distinguish nearly all rows, above the
/// row's index.
fn key(id: u128, row: u32) -> u64 {
    let bits = (id << BIN_BITS) >> (u128::BITS - u32::BITS);
    u64::try_from(bits << u32::BITS).unwrap_or(u64::MAX) | u64::from(row)
}

/// Return the row of a key.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is meant")]
fn row(key: u64) -> u32 {
    key as u32
}

/// Sort keys, first into buckets by their leading bits, with one or two keys per bucket. Ids are hashes;
/// crafted ids that share a bucket are sorted by comparison.
fn sorted(keys: &[u64]) -> Vec<u64> {
    let bits = keys.len().max(2).ilog2().min(u32::BITS);
    let share = |key: u64| usize::try_from(key >> (u64::BITS - bits)).unwrap_or(0);
    let (mut sorted, ends) = counting_sort(keys, 1 << bits, |&key| share(key));
    let mut begin = 0;
    for end in ends {
        sorted[std::mem::replace(&mut begin, end as usize)..end as usize].sort_unstable();
    }
    sorted
}

#[cfg(test)]
mod tests {
    use karl_core::rng::id128;

    use super::*;

    #[test]
    fn keys_are_sorted_however_alike_they_are() {
        for count in [0, 1, 2, 7, 8, 9, 1000] {
            for alike in [0, 8, 20, 32, 128] {
                let id = |at: u32| id128(&at.to_le_bytes()).checked_shr(BIN_BITS + alike).unwrap_or(0);
                let mut keys: Vec<u64> = (0..count).map(|at| key(id(at), at)).collect();
                let found = sorted(&keys);
                keys.sort_unstable();
                assert_eq!(found, keys, "{count} {alike}");
            }
        }
    }
}
