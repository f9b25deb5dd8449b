//! The rows of all threads as columns, sorted by (id, digest, place) bin by bin.

use super::{BIN_BITS, Bin, Rows};
use crate::category::{Category, NONE};
use crate::names::{Known, Way};
use crate::parallel::map;

/// All rows as columns.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) ids: Vec<u128>,
    pub(crate) digests: Vec<u64>,
    /// As numbers, for the system gives zeros without writing them.
    pub(crate) spots: Vec<u64>,
    pub(crate) lengths: Vec<u32>,
    pub(crate) components: Vec<Vec<f64>>,
    pub(crate) group: Category,
    pub(crate) domain: Category,
    pub(crate) partition: Category,
    pub(crate) fingerprints: Vec<u128>,
}

/// Joins the rows of all threads.
pub(crate) fn columns(mut parts: Vec<Rows>, components: usize, threads: usize) -> Columns {
    let mut names = |of: fn(&mut Rows) -> &mut Known| {
        Known::merge(parts.iter_mut().map(|rows| std::mem::take(of(rows))).collect(), threads)
    };
    let (groups, group_ways) = names(|rows| &mut rows.groups);
    let (domains, domain_ways) = names(|rows| &mut rows.domains);
    let (partitions, partition_ways) = names(|rows| &mut rows.partitions);
    let bins: Vec<Vec<Bin>> = across(parts);
    let counts: Vec<usize> = bins.iter().map(|parts| parts.iter().map(|bin| bin.rows.len()).sum()).collect();
    let mut codes = Codes::default();
    let mut all = Columns::default();
    let mut rest = Slots::new(&mut all, &mut codes, &bins, counts.iter().sum(), components);
    let slots: Vec<_> = counts.iter().map(|&count| rest.split_off(count)).collect();
    let ways: Vec<_> = group_ways.iter().zip(&domain_ways).zip(&partition_ways).collect();
    let fill = |(slots, bins): (Slots, Vec<Bin>)| {
        let parts = bins.into_iter().zip(&ways);
        slots.fill(
            &parts
                .map(|(bin, &((groups, domains), partitions))| Part { bin, groups, domains, partitions })
                .collect::<Vec<_>>(),
        );
    };
    map(slots.into_iter().zip(bins).collect(), threads, fill);
    let count = all.ids.len();
    all.group = Category::new(codes.group, count, groups, threads);
    all.domain = Category::new(codes.domain, count, domains, threads);
    all.partition = Category::new(codes.partition, count, partitions, threads);
    all
}

/// The bins of all threads, bin by bin.
fn across(parts: Vec<Rows>) -> Vec<Vec<Bin>> {
    let mut bins: Vec<Vec<Bin>> = Vec::new();
    for rows in parts {
        bins.resize_with(rows.bins.len(), Vec::new);
        bins.iter_mut().zip(rows.bins).for_each(|(parts, bin)| parts.push(bin));
    }
    bins
}

/// What one thread has left in a bin, and the way from its numbers for names to those of all.
struct Part<'a> {
    bin: Bin,
    groups: &'a Way,
    domains: &'a Way,
    partitions: &'a Way,
}

impl Part<'_> {
    fn domain(&self, row: usize) -> u32 {
        self.bin.extras.domain.get(row).map_or(NONE, |&code| self.domains.code(code))
    }

    fn partition(&self, row: usize) -> u32 {
        self.bin.extras.partition.get(row).map_or(NONE, |&code| self.partitions.code(code))
    }
}

/// Where a row of a bin is.
#[derive(Clone, Copy)]
struct At {
    part: usize,
    row: usize,
}

impl At {
    /// The upper half of an id tells nearly all rows apart, without a look at them; below it stands where the row is.
    const ID: u128 = !(u64::MAX as u128);

    fn of(key: u128) -> Self {
        let half = |shift: u32| usize::try_from(key >> shift & u128::from(u32::MAX)).unwrap_or(0);
        Self { part: half(u32::BITS), row: half(0) }
    }

    fn key(id: u128, part: u32, row: u32) -> u128 {
        id & Self::ID | u128::from(part) << u32::BITS | u128::from(row)
    }
}

/// The order of the rows. Equal ids and equal digests are equal records, and as good as each other: their place
/// keeps the order from depending on threads.
fn order(parts: &[Part<'_>]) -> Vec<At> {
    let keys = (0..)
        .zip(parts)
        .flat_map(|(part, one)| (0..).zip(&one.bin.rows).map(move |(row, held)| At::key(held.id, part, row)));
    let mut order = sorted(&keys.collect::<Vec<_>>());
    let held = |key: u128| {
        let At { part, row } = At::of(key);
        &parts[part].bin.rows[row]
    };
    for same in order.chunk_by_mut(|a, b| a & At::ID == b & At::ID).filter(|same| same.len() > 1) {
        same.sort_unstable_by_key(|&key| (held(key).id, held(key).digest, held(key).spot));
    }
    order.into_iter().map(At::of).collect()
}

/// Sorts keys of one bin: dealt by the bits that follow those of the bin, so many that one or two keys share them.
/// Ids are hashes; where somebody has made them alike, they are sorted as any numbers.
fn sorted(keys: &[u128]) -> Vec<u128> {
    let bits = keys.len().max(2).ilog2();
    let share = |key: u128| usize::try_from((key << BIN_BITS) >> (u128::BITS - bits)).unwrap_or(0);
    let mut next = vec![0_u32; (1 << bits) + 1];
    for &key in keys {
        next[share(key) + 1] += 1;
    }
    for at in 0..1 << bits {
        next[at + 1] += next[at];
    }
    let mut dealt = vec![0; keys.len()];
    for &key in keys {
        let next = &mut next[share(key)];
        dealt[*next as usize] = key;
        *next += 1;
    }
    // Each share now ends where its next key would lie.
    let mut begin = 0;
    for &end in &next[..1 << bits] {
        dealt[std::mem::replace(&mut begin, end as usize)..end as usize].sort_unstable();
    }
    dealt
}

#[derive(Default)]
struct Codes {
    group: Vec<u32>,
    domain: Vec<u32>,
    partition: Vec<u32>,
}

/// A stretch of every column, to be filled.
struct Slots<'a> {
    ids: &'a mut [u128],
    digests: &'a mut [u64],
    spots: &'a mut [u64],
    lengths: &'a mut [u32],
    components: Vec<&'a mut [f64]>,
    group: &'a mut [u32],
    domain: &'a mut [u32],
    partition: &'a mut [u32],
    fingerprints: &'a mut [u128],
}

impl<'a> Slots<'a> {
    /// Columns of so many rows; those that no bin has stay empty.
    fn new(
        all: &'a mut Columns,
        codes: &'a mut Codes,
        bins: &[Vec<Bin>],
        count: usize,
        components: usize,
    ) -> Self {
        let has = |any: fn(&Bin) -> bool| if bins.iter().flatten().any(any) { count } else { 0 };
        all.ids = vec![0; count];
        all.digests = vec![0; count];
        all.spots = vec![0; count];
        all.lengths = vec![0; count];
        all.components = vec![vec![0.0; count]; components];
        all.fingerprints = vec![0; has(|bin| !bin.extras.fingerprint.is_empty())];
        codes.group = vec![0; has(|bin| bin.rows.iter().any(|row| row.group != NONE))];
        codes.domain = vec![0; has(|bin| !bin.extras.domain.is_empty())];
        codes.partition = vec![0; has(|bin| !bin.extras.partition.is_empty())];
        Self {
            ids: &mut all.ids,
            digests: &mut all.digests,
            spots: &mut all.spots,
            lengths: &mut all.lengths,
            components: all.components.iter_mut().map(Vec::as_mut_slice).collect(),
            group: &mut codes.group,
            domain: &mut codes.domain,
            partition: &mut codes.partition,
            fingerprints: &mut all.fingerprints,
        }
    }

    /// The first so many rows of each column; none of a column that the log does not have.
    fn split_off(&mut self, rows: usize) -> Self {
        Self {
            ids: self.ids.split_off_mut(..rows).unwrap_or_default(),
            digests: self.digests.split_off_mut(..rows).unwrap_or_default(),
            spots: self.spots.split_off_mut(..rows).unwrap_or_default(),
            lengths: self.lengths.split_off_mut(..rows).unwrap_or_default(),
            components: self
                .components
                .iter_mut()
                .filter_map(|column| column.split_off_mut(..rows))
                .collect(),
            group: self.group.split_off_mut(..rows).unwrap_or_default(),
            domain: self.domain.split_off_mut(..rows).unwrap_or_default(),
            partition: self.partition.split_off_mut(..rows).unwrap_or_default(),
            fingerprints: self.fingerprints.split_off_mut(..rows).unwrap_or_default(),
        }
    }

    fn fill(mut self, parts: &[Part<'_>]) {
        // So few rows stay in the nearest cache from the first column to the last.
        for order in order(parts).chunks(1 << 8) {
            self.split_off(order.len()).gather(parts, order);
        }
    }

    fn gather(self, parts: &[Part<'_>], order: &[At]) {
        let held = |at: At| &parts[at.part].bin.rows[at.row];
        let extras = |at: At| &parts[at.part].bin.extras;
        gather(self.ids, order, |at| held(at).id);
        gather(self.digests, order, |at| held(at).digest);
        gather(self.spots, order, |at| held(at).spot.0);
        gather(self.lengths, order, |at| held(at).length);
        gather(self.group, order, |at| parts[at.part].groups.code(held(at).group));
        let mut components = self.components.into_iter();
        components.next().into_iter().for_each(|column| gather(column, order, |at| held(at).reward));
        for (number, column) in components.enumerate() {
            gather(column, order, |at| extras(at).components[number][at.row]);
        }
        gather(self.domain, order, |at| parts[at.part].domain(at.row));
        gather(self.partition, order, |at| parts[at.part].partition(at.row));
        gather(self.fingerprints, order, |at| extras(at).fingerprint[at.row]);
    }
}

fn gather<T>(column: &mut [T], order: &[At], value: impl Fn(At) -> T) {
    for (slot, &at) in column.iter_mut().zip(order) {
        *slot = value(at);
    }
}

#[cfg(test)]
mod tests {
    use karl_core::rng::id128;

    use super::*;

    #[test]
    fn keys_are_sorted_however_alike_they_are() {
        for count in [0, 1, 2, 7, 8, 9, 1000] {
            for alike in [0, 8, 40, 90, 128] {
                let bin = id128(b"bin") >> (u128::BITS - BIN_BITS) << (u128::BITS - BIN_BITS);
                let key = |at: u32| bin | id128(&at.to_le_bytes()).checked_shr(BIN_BITS + alike).unwrap_or(0);
                let mut keys: Vec<u128> = (0..count).map(key).collect();
                let found = sorted(&keys);
                keys.sort_unstable();
                assert_eq!(found, keys, "{count} {alike}");
            }
        }
    }
}
