//! Merge of the rows of all threads to columns, sorted by (id, digest, place) bin by bin.

use super::bins::{BIN_BITS, Bin, BinPart, NameTables, ThreadRows};
use super::category::Category;
use super::chunked_vec::ChunkedVec;
use super::place::{RowLocations, starts};
use crate::intern::{NONE, Renumbering};
use crate::parallel::map;

/// All rows as columns.
#[derive(Debug, Default)]
pub(crate) struct LogColumns {
    pub(crate) ids: Vec<u128>,
    pub(crate) records: RowLocations,
    pub(crate) components: Vec<Vec<f64>>,
    pub(crate) group: Category,
    pub(crate) domain: Category,
    pub(crate) partition: Category,
    pub(crate) fingerprints: Vec<u128>,
}

/// Merge the rows of all threads.
pub(crate) fn columns(
    mut parts: Vec<ThreadRows>,
    vocabulary: NameTables,
    components: usize,
    threads: usize,
) -> LogColumns {
    let (groups, group) = vocabulary.groups.finish();
    let (domains, domain) = vocabulary.domains.finish();
    let (partitions, partition) = vocabulary.partitions.finish();
    let renumberings = Renumberings { group, domain, partition };
    let records = RowLocations::new(parts.iter_mut().map(|read| std::mem::take(&mut read.records)).collect());
    let bins: Vec<Vec<Bin>> = transpose(parts);
    let counts: Vec<usize> = bins.iter().map(|parts| parts.iter().map(|bin| bin.ids.len()).sum()).collect();
    let mut codes = RowCodes::default();
    let mut all = LogColumns::default();
    let mut rest = ColumnSlices::new(&mut all, &mut codes, &bins, counts.iter().sum(), components);
    let slots: Vec<_> = counts.iter().map(|&count| rest.split_off(count)).collect();
    let fill = |(slots, bins): (ColumnSlices, Vec<Bin>)| {
        let part = |(bin, (records, first))| BinPart { bin, records, first };
        slots.fill(&bins.into_iter().zip(records.parts()).map(part).collect::<Vec<_>>(), &renumberings);
    };
    map(slots.into_iter().zip(bins).collect(), threads, fill);
    all.records = records.with_order(codes.record);
    let count = all.ids.len();
    all.group = Category::new(codes.group, count, groups, threads);
    all.domain = Category::new(codes.domain, count, domains, threads);
    all.partition = Category::new(codes.partition, count, partitions, threads);
    all
}

/// Transpose the bins of all threads, to bin by bin.
fn transpose(parts: Vec<ThreadRows>) -> Vec<Vec<Bin>> {
    let mut bins: Vec<Vec<Bin>> = Vec::new();
    for read in parts {
        bins.resize_with(read.bins.len(), Vec::new);
        bins.iter_mut().zip(read.bins).for_each(|(parts, bin)| parts.push(bin));
    }
    bins
}

/// Maps from the numbers that names had while reading to those of the columns.
struct Renumberings {
    group: Renumbering,
    domain: Renumbering,
    partition: Renumbering,
}

#[derive(Default)]
struct RowCodes {
    record: Vec<u32>,
    group: Vec<u32>,
    domain: Vec<u32>,
    partition: Vec<u32>,
}

/// Slices of every column, to be filled.
struct ColumnSlices<'a> {
    ids: &'a mut [u128],
    record: &'a mut [u32],
    components: Vec<&'a mut [f64]>,
    group: &'a mut [u32],
    domain: &'a mut [u32],
    partition: &'a mut [u32],
    fingerprints: &'a mut [u128],
}

impl<'a> ColumnSlices<'a> {
    /// Return the slices of columns of so many rows; columns that no bin has stay empty.
    fn new(
        all: &'a mut LogColumns,
        codes: &'a mut RowCodes,
        bins: &[Vec<Bin>],
        count: usize,
        components: usize,
    ) -> Self {
        let has = |any: fn(&Bin) -> bool| if bins.iter().flatten().any(any) { count } else { 0 };
        all.ids = vec![0; count];
        all.components = vec![vec![0.0; count]; components];
        all.fingerprints = vec![0; has(|bin| !bin.extras.fingerprint.is_empty())];
        codes.record = vec![0; count];
        codes.group = vec![0; has(|bin| bin.rows.iter().any(|row| row.group != NONE))];
        codes.domain = vec![0; has(|bin| !bin.extras.domain.is_empty())];
        codes.partition = vec![0; has(|bin| !bin.extras.partition.is_empty())];
        Self {
            ids: &mut all.ids,
            record: &mut codes.record,
            components: all.components.iter_mut().map(Vec::as_mut_slice).collect(),
            group: &mut codes.group,
            domain: &mut codes.domain,
            partition: &mut codes.partition,
            fingerprints: &mut all.fingerprints,
        }
    }

    /// Split off the first rows of each column; none of an absent column.
    fn split_off(&mut self, rows: usize) -> Self {
        Self {
            ids: self.ids.split_off_mut(..rows).unwrap_or_default(),
            record: self.record.split_off_mut(..rows).unwrap_or_default(),
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

    /// Write the rows of a bin. Reads are sequential and writes are scattered, because waiting for a read
    /// takes longer.
    fn fill(mut self, parts: &[BinPart<'_>], renumberings: &Renumberings) {
        let ranks = ranks(parts);
        let mut ranks = ranks.as_slice();
        for part in parts {
            let (own, later) = ranks.split_at(part.bin.ids.len().min(ranks.len()));
            self.scatter(part, own, renumberings);
            ranks = later;
        }
    }

    fn scatter(&mut self, part: &BinPart<'_>, ranks: &[u32], renumberings: &Renumberings) {
        let Bin { ids, rows, extras } = &part.bin;
        scatter(self.ids, ranks, ids.iter());
        scatter(self.record, ranks, rows.iter().map(|row| part.first + row.record));
        scatter(self.group, ranks, rows.iter().map(|row| renumberings.group.code(row.group)));
        let mut components = self.components.iter_mut();
        components
            .next()
            .into_iter()
            .for_each(|column| scatter(column, ranks, rows.iter().map(|row| row.reward)));
        for (column, component) in components.zip(&extras.components) {
            scatter(column, ranks, component.iter());
        }
        scatter(self.domain, ranks, renumber(&extras.domain, &renumberings.domain));
        scatter(self.partition, ranks, renumber(&extras.partition, &renumberings.partition));
        scatter(self.fingerprints, ranks, extras.fingerprint.iter());
    }
}

/// Iterate over the renumbered codes of a column; rows after its end have none.
fn renumber<'a>(column: &'a ChunkedVec<u32>, renumbering: &'a Renumbering) -> impl Iterator<Item = u32> {
    column.iter().map(|code| renumbering.code(code)).chain(std::iter::repeat(NONE))
}

/// Write each value at its rank; nothing to an absent column.
fn scatter<T>(column: &mut [T], ranks: &[u32], values: impl Iterator<Item = T>) {
    if column.is_empty() {
        return;
    }
    ranks.iter().zip(values).for_each(|(&rank, value)| column[rank as usize] = value);
}

/// Return the rank of each row of a bin, part after part. Rows with equal ids and digests are equal records:
/// their place makes the order independent of threads.
fn ranks(parts: &[BinPart<'_>]) -> Vec<u32> {
    let ids = parts.iter().flat_map(|part| part.bin.ids.iter());
    let mut keys: Vec<u64> = (0..).zip(ids).map(|(row, id)| key(id, row)).collect();
    keys.sort_unstable();
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
    let mut ranks = vec![0; keys.len()];
    for (rank, &key) in (0..).zip(&keys) {
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

#[cfg(test)]
mod tests {
    use karl_core::rng::id128;

    use super::super::{PackedPlace, RowBins, RowSink, ScannedRow};
    use super::*;

    /// Return columns of ids that differ only in their last bits, some with several records, read by
    /// `threads` threads.
    fn alike(threads: usize) -> LogColumns {
        // Some threads read no rows.
        let vocabulary = NameTables::new();
        let mut parts: Vec<RowBins> = (0..=2 * threads).map(|_| RowBins::new(2, &vocabulary)).collect();
        for at in (0..500_u32).rev() {
            let row = ScannedRow {
                id: id128(b"id") >> 8 << 8 | u128::from(at % 200),
                digest: u64::from(at / 400),
                spot: PackedPlace(u64::from(at)),
                length: at,
                rewards: &[f64::from(at), -f64::from(at)],
                group: None,
                domain: (at % 3 == 0).then_some(b"third"),
                partition: Some(if at % 2 == 0 { b"even" } else { b"odd" }),
                fingerprint: Some(u128::from(at)),
                record: b"",
            };
            parts[2 * (at as usize % threads) + 1].push(&row);
        }
        let parts = parts.into_iter().map(RowBins::finish).collect();
        columns(parts, vocabulary, 2, threads)
    }

    #[test]
    fn rows_whose_ids_are_nearly_alike_stand_in_the_order_of_id_digest_and_place() {
        let mut wanted: Vec<u32> = (0..500).collect();
        wanted.sort_by_key(|at| (at % 200, at / 400, *at));
        for threads in [1, 2, 3, 7] {
            let all = alike(threads);
            assert!(all.ids.is_sorted(), "{threads}");
            let rewards: Vec<f64> = wanted.iter().map(|&at| f64::from(at)).collect();
            let costs = rewards.iter().map(|reward| -reward).collect();
            assert_eq!(all.components, [rewards, costs], "{threads}");
            assert!(
                all.fingerprints.iter().copied().eq(wanted.iter().map(|&at| u128::from(at))),
                "{threads}"
            );
            for (row, &at) in wanted.iter().enumerate() {
                let place = all.records.place(row).unwrap();
                assert_eq!((place.offset, place.length), (u64::from(at), at), "{threads}");
                assert_eq!(all.records.digest(row), u64::from(at / 400), "{threads}");
                assert_eq!(all.domain.name(row), (at % 3 == 0).then_some("third"), "{threads}");
                let partition = if at % 2 == 0 { "even" } else { "odd" };
                assert_eq!(all.partition.name(row), Some(partition), "{threads}");
            }
            assert!(all.records.place(500).is_none() && all.records.digest(500) == 0);
        }
    }
}
