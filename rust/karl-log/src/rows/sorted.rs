//! The rows of all threads as columns, sorted by (id, digest, place) bin by bin.

use super::{Bin, Held, Rows, Spot};
use crate::category::{Category, NONE};
use crate::names::{Known, Way};
use crate::parallel::map;

/// All rows as columns.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) ids: Vec<u128>,
    pub(crate) digests: Vec<u64>,
    pub(crate) spots: Vec<Spot>,
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
    let fill = |(slots, parts): (Slots, Vec<Bin>)| {
        let ways = |at| [&group_ways[at], &domain_ways[at], &partition_ways[at]];
        let renumbered = parts.into_iter().enumerate().map(|(at, bin)| bin.renumbered(ways(at)));
        if let Some(bin) = renumbered.reduce(Bin::append) {
            slots.fill(&bin);
        }
    };
    map(slots.into_iter().zip(bins).collect(), threads, fill);
    let count = all.ids.len();
    // The group is the long one: in equal shares of three, the last stands alone.
    let work = vec![(codes.domain, &domains), (codes.partition, &partitions), (codes.group, &groups)];
    let mut made = map(work, threads, |(codes, names)| Category::new(codes, count, names)).into_iter();
    for category in [&mut all.domain, &mut all.partition, &mut all.group] {
        *category = made.next().unwrap_or_default();
    }
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

impl Bin {
    fn append(mut self, other: Self) -> Self {
        let (extras, more) = (&mut self.extras, other.extras);
        extras.components.iter_mut().zip(more.components).for_each(|(all, more)| all.extend(more));
        for (all, more) in [(&mut extras.domain, more.domain), (&mut extras.partition, more.partition)] {
            if !more.is_empty() {
                all.resize(self.rows.len(), NONE);
                all.extend(more);
            }
        }
        extras.fingerprint.extend(more.fingerprint);
        self.rows.extend(other.rows);
        self
    }

    /// From one thread's numbers for names to the numbers of all.
    fn renumbered(mut self, [groups, domains, partitions]: [&Way; 3]) -> Self {
        self.rows.iter_mut().for_each(|row| row.group = groups.code(row.group));
        self.extras.domain.iter_mut().for_each(|code| *code = domains.code(*code));
        self.extras.partition.iter_mut().for_each(|code| *code = partitions.code(*code));
        self
    }

    /// The order of the rows. Equal ids and equal digests are equal records, and as good as each other: their place
    /// keeps the order from depending on threads.
    fn order(rows: &[Held]) -> Vec<usize> {
        // The upper half of an id tells nearly all apart, without a look at the row.
        const UPPER: u128 = !(u64::MAX as u128);
        let mut order: Vec<u128> =
            rows.iter().zip(0..).map(|(row, at): (_, u128)| row.id & UPPER | at).collect();
        order.sort_unstable();
        let at = |one: u128| usize::try_from(one & !UPPER).unwrap_or(0);
        for same in order.chunk_by_mut(|a, b| a & UPPER == b & UPPER).filter(|same| same.len() > 1) {
            same.sort_unstable_by_key(|&one| (rows[at(one)].id, rows[at(one)].digest, rows[at(one)].spot));
        }
        order.into_iter().map(at).collect()
    }
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
    spots: &'a mut [Spot],
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
        all.spots = vec![Spot::default(); count];
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

    fn fill(mut self, bin: &Bin) {
        // So few rows stay in the nearest cache from the first column to the last.
        for order in Bin::order(&bin.rows).chunks(1 << 8) {
            self.split_off(order.len()).gather(bin, order);
        }
    }

    fn gather(self, Bin { rows, extras }: &Bin, order: &[usize]) {
        gather(self.ids, order, |at| rows[at].id);
        gather(self.digests, order, |at| rows[at].digest);
        gather(self.spots, order, |at| rows[at].spot);
        gather(self.lengths, order, |at| rows[at].length);
        gather(self.group, order, |at| rows[at].group);
        let mut components = self.components.into_iter();
        components.next().into_iter().for_each(|column| gather(column, order, |at| rows[at].reward));
        components.zip(&extras.components).for_each(|(column, from)| gather(column, order, |at| from[at]));
        gather(self.domain, order, |at| extras.domain.get(at).copied().unwrap_or(NONE));
        gather(self.partition, order, |at| extras.partition.get(at).copied().unwrap_or(NONE));
        gather(self.fingerprints, order, |at| extras.fingerprint[at]);
    }
}

fn gather<T>(column: &mut [T], order: &[usize], value: impl Fn(usize) -> T) {
    for (slot, &at) in column.iter_mut().zip(order) {
        *slot = value(at);
    }
}
