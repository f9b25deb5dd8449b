//! Equal trajectories of a log, counted in a sample of its groups, because comparing all parses every record.
//!
//! ```text
//! copies of all ~ rows * (sum of copies / sum of rows of the sampled groups)        a ratio estimate of clusters
//! ```
//!
//! Two trajectories are copies if they are equal and of one group, so that a group holds all that its rows are compared
//! with, and groups can be drawn. Rows without a group are compared with each other: all of them, or none, for in a part
//! of them copies are alone.
//!
//! Reference: Cochran, Sampling Techniques, 3rd edition, section 9A.2.

use std::collections::HashSet;

use karl_core::rng::{Key, Purpose, id128, uniform};

use crate::cancel::Watch;
use crate::conversation::content_hash::hash_learned;
use crate::error::Result;
use crate::log::Log;
use crate::second_pass::fetch_each;

/// Two-sided quantile of the normal distribution at 95 %.
const Z95: f64 = 1.96;

/// Where no group of n has copies, fewer than this number over n of all groups do, at 95 %: -ln 0.05.
const NONE_95: f64 = 3.0;

/// Copies in a sample of groups, and in all of them by estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DuplicateEstimate {
    /// Groups of two rows or more.
    pub groups: usize,
    /// Those of them that were compared.
    pub groups_compared: usize,
    /// Rows that were compared.
    pub rows_compared: usize,
    /// Rows without a group that were not, because they have too many bytes.
    pub rows_left_out: usize,
    /// Copies among them.
    pub copies_compared: u64,
    /// Copies in the whole log by estimate, without those of rows that were left out; exact if all groups were compared.
    pub copies: f64,
    /// Half the width of its 95 % interval; 0 if it is exact.
    pub error_95: f64,
}

/// Group of a log.
#[derive(Clone, Copy)]
struct Group {
    rows: u64,
    copies: u64,
    is_compared: bool,
}

/// Estimate the copies in a log from about so many bytes of groups, which the seed selects by their names, and from the
/// rows without a group where they have no more.
///
/// # Errors
/// As [`fetch_each`].
pub fn estimate_duplicates(
    log: &Log,
    seed: u64,
    bytes: u64,
    threads: usize,
    watch: &Watch,
) -> Result<DuplicateEstimate> {
    let codes = log.group.codes();
    let mut groups = select(log, &codes, seed, bytes);
    let is_loose = |code: u32| groups.len() <= code as usize;
    let loose_rows = log.places().zip(&*codes).filter(|(_, code)| is_loose(**code));
    let (loose_count, size) =
        loose_rows.fold((0, 0), |(count, size), (place, _)| (count + 1, size + u64::from(place.length)));
    let compares_loose = size <= bytes;
    let is_compared = |code: u32| groups.get(code as usize).map_or(compares_loose, |group| group.is_compared);
    let rows = (0..).zip(&*codes).filter(|(_, code)| is_compared(**code)).map(|(row, _)| row);
    let rows: Vec<u32> = rows.collect();
    let hashes =
        fetch_each(log, &rows, threads, watch, |row, record| hash_learned(&record, log.fields(row)))?;
    let (mut trajectories, mut loose) = (HashSet::new(), 0);
    for (&row, hash) in rows.iter().zip(hashes) {
        let code = codes[row as usize];
        if !trajectories.insert((code, hash)) {
            *groups.get_mut(code as usize).map_or(&mut loose, |group| &mut group.copies) += 1;
        }
    }
    let rows_left_out = if compares_loose { 0 } else { loose_count };
    Ok(DuplicateEstimate { rows_compared: rows.len(), rows_left_out, ..extrapolate(&groups, loose) })
}

/// Return the groups of a log by code, those that are compared marked: all that have more than one row, or as many of
/// them as have so many bytes on average, those with the smallest uniforms.
fn select(log: &Log, codes: &[u32], seed: u64, bytes: u64) -> Vec<Group> {
    let (sizes, _) = log.group.count(None);
    let mut groups: Vec<Group> =
        sizes.iter().map(|&rows| Group { rows, copies: 0, is_compared: false }).collect();
    let has_several = |code: u32| groups.get(code as usize).is_some_and(|group| group.rows > 1);
    let lengths = log.places().zip(codes).filter(|(_, code)| has_several(**code));
    let size: u64 = lengths.map(|(place, _)| u64::from(place.length)).sum();
    let mut order: Vec<(f64, u128, u32)> = (0..)
        .take(groups.len())
        .filter(|&code| has_several(code))
        .map(|code| {
            let id = id128(log.group.names().get(code).unwrap_or_default().as_bytes());
            (uniform(seed, Key { id, ordinal: 0 }, Purpose::Inspect), id, code)
        })
        .collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let share = (bytes as f64 / size.max(1) as f64).min(1.0);
    let count = (order.len() as f64 * share).ceil();
    for (_, (_, _, code)) in (0..).zip(order).take_while(|(at, _)| f64::from(*at) < count) {
        groups[code as usize].is_compared = true;
    }
    groups
}

/// Estimate the copies in all groups from those that were compared; `loose` are those of rows without a group.
fn extrapolate(groups: &[Group], loose: u64) -> DuplicateEstimate {
    let several: Vec<&Group> = groups.iter().filter(|group| group.rows > 1).collect();
    let sample: Vec<&Group> = several.iter().copied().filter(|group| group.is_compared).collect();
    let sum =
        |groups: &[&Group], value: fn(&Group) -> u64| groups.iter().map(|group| value(group)).sum::<u64>();
    let (rows, all_rows) = (sum(&sample, |group| group.rows), sum(&several, |group| group.rows));
    let copies = sum(&sample, |group| group.copies);
    let (drawn, all) = (sample.len() as f64, several.len() as f64);
    let share = copies as f64 / rows.max(1) as f64;
    let residual = |group: &&Group| (group.copies as f64 - share * group.rows as f64).powi(2);
    let variance = sample.iter().map(residual).sum::<f64>() / (drawn - 1.0).max(1.0);
    let error_95 = if sample.len() == several.len() {
        0.0
    } else if variance < f64::EPSILON {
        // One group, or groups that are all alike: as many as may be unlike them unseen, each of copies alone or of none.
        (NONE_95 / drawn).min(1.0) * (all_rows as f64 - all)
    } else {
        Z95 * all * ((1.0 - drawn / all) * variance / drawn).sqrt()
    };
    DuplicateEstimate {
        groups: several.len(),
        groups_compared: sample.len(),
        rows_compared: 0,
        rows_left_out: 0,
        copies_compared: copies + loose,
        copies: share * all_rows as f64 + loose as f64,
        error_95,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(copies: &[u64], is_compared: impl Fn(usize) -> bool) -> Vec<Group> {
        let group = |(at, &copies)| Group { rows: 8, copies, is_compared: is_compared(at) };
        copies.iter().enumerate().map(group).collect()
    }

    #[test]
    fn all_groups_give_the_exact_number() {
        let estimate = extrapolate(&groups(&[0, 3, 7], |_| true), 2);
        assert_eq!((estimate.copies, estimate.error_95, estimate.copies_compared), (12.0, 0.0, 12));
    }

    #[test]
    fn estimates_of_all_samples_have_the_true_mean_and_their_errors_cover_it() {
        let copies = [0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 1, 2];
        let truth = copies.iter().sum::<u64>() as f64;
        let samples = (0_u32..1 << copies.len()).filter(|sample| sample.count_ones() == 6);
        let estimates: Vec<_> =
            samples.map(|sample| extrapolate(&groups(&copies, |at| sample >> at & 1 == 1), 0)).collect();
        let count = estimates.len() as f64;
        let mean = estimates.iter().map(|estimate| estimate.copies).sum::<f64>() / count;
        assert!((mean - truth).abs() < 1e-9, "{mean}");
        let covers = |one: &&DuplicateEstimate| (one.copies - truth).abs() <= one.error_95;
        let covered = estimates.iter().filter(covers).count() as f64 / count;
        assert!((0.93..0.97).contains(&covered), "{covered}");
    }

    #[test]
    fn a_sample_without_copies_says_how_many_there_may_be() {
        let estimate = extrapolate(&groups(&[0; 100], |at| at < 30), 0);
        assert_eq!((estimate.copies, estimate.groups_compared), (0.0, 30));
        assert!((estimate.error_95 - 70.0).abs() < 1e-9);
    }

    #[test]
    fn one_group_or_groups_that_are_alike_are_not_exact() {
        let one = extrapolate(&groups(&[3; 3], |at| at == 1), 0);
        assert_eq!((one.copies, one.error_95), (9.0, 21.0), "all others may be of copies alone");
        let alike = extrapolate(&groups(&[3; 100], |at| at < 30), 0);
        assert!((alike.copies - 300.0).abs() < 1e-9 && (alike.error_95 - 70.0).abs() < 1e-9);
    }

    #[test]
    fn groups_of_one_row_have_no_copies_and_are_not_compared() {
        let alone = Group { rows: 1, copies: 0, is_compared: false };
        let estimate = extrapolate(&[alone, Group { rows: 4, copies: 1, is_compared: true }], 0);
        assert_eq!((estimate.groups, estimate.copies, estimate.error_95), (1, 1.0, 0.0));
    }
}
