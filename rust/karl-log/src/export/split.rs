//! Split of the rows of a draft into train, valid and test.

use karl_core::Keys;
use karl_core::output_order::write_order;
use karl_core::rng::{Key, id128};
use karl_core::split::{Group, split};
use rustc_hash::FxHashMap;

use super::Draft;
use super::row::SessionKeys;
use crate::error::Result;
use crate::log::Log;

/// Distinction between records of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordinals {
    /// Rank by the hash of their bytes.
    Ranks,
    /// The hash itself: the rank is unknown in a single pass.
    Digests,
}

/// Settings of the split.
#[derive(Clone, Copy, Debug)]
pub struct Dealing {
    /// Fraction of the rows for each split (train, valid, test).
    pub fractions: [f64; 3],
    /// Minimum rows of a split other than train; smaller ones go to train, unless the fraction of
    /// train is zero: trainers reject splits smaller than their batch.
    pub fewest: usize,
    /// Seed of the random split.
    pub seed: u64,
}

/// Rows of each split (train, valid, test).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Splits {
    /// Lines, each split in the order of a second uniform of (seed, id); a line occurs as often as its row
    /// was drawn.
    pub lines: [Vec<usize>; 3],
    /// Target number of rows of each.
    pub quotas: [f64; 3],
    /// Number of groups of each, or of prompts if rows have no group.
    pub groups: [usize; 3],
    /// Number of rows moved to train because the split was too small.
    pub merged: [usize; 3],
    /// Fractions that leave enough rows in every split that was to have some, and the rows of each, if these
    /// fractions do not.
    pub larger: Option<([f64; 3], [usize; 3])>,
}

impl Draft {
    /// Split the rows; rows of a group, or of a prompt if there is no group, go to one split.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for invalid fractions.
    pub fn split(&self, log: &Log, ordinals: Ordinals, dealing: Dealing) -> Result<Splits> {
        let Dealing { fractions, fewest, seed } = dealing;
        let (groups, group_of) = self.groups(log);
        let mut split_of = split(&groups, &fractions, seed, fewest as u64)?;
        let merged = merge(&groups, &mut split_of, dealing);
        let larger =
            if is_short(&rows_of(&groups, &split_of), dealing) { larger(&groups, dealing)? } else { None };
        let all: u64 = groups.iter().map(|group| group.rows).sum();
        let mut splits =
            Splits { quotas: fractions.map(|share| share * all as f64), merged, larger, ..Splits::default() };
        for &split in &split_of {
            splits.groups[split] += 1;
        }
        let line_of: FxHashMap<u32, usize> =
            self.rows.iter().enumerate().map(|(line, &row)| (row, line)).collect();
        for row in self.order(log, ordinals, seed)? {
            let line = line_of[&row];
            splits.lines[split_of[group_of[line]]].push(line);
        }
        Ok(splits)
    }

    /// Return the groups that are split, and the group of each line. Lines of one group, of one prompt, or of
    /// one session go together.
    fn groups(&self, log: &Log) -> (Vec<Group>, Vec<usize>) {
        let mut sets = DisjointSets::default();
        let mut set_of = Vec::with_capacity(self.rows.len());
        for (line, &row) in self.rows.iter().enumerate() {
            let (rank, id) = self.group_id(log, line, row);
            let set = sets.find(if rank == Rank::Group { HashOf::Name } else { HashOf::Prompt }, id);
            sets.rank(set, rank, id);
            for (key, rank) in self.sessions[line].into_iter().flat_map(session_keys) {
                let session = sets.find(HashOf::Name, key);
                sets.rank(session, rank, key);
                sets.join(set, session);
            }
            set_of.push(set);
        }
        let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
        let (mut groups, mut group_of) = (Vec::new(), Vec::with_capacity(self.rows.len()));
        for (set, &copies) in set_of.into_iter().zip(&self.copies) {
            let top = sets.top(set);
            let number = *numbers.entry(top).or_insert_with(|| {
                groups.push(Group { key: Key { id: sets.keys[top].1, ordinal: 0 }, rows: 0 });
                groups.len() - 1
            });
            groups[number].rows += u64::from(copies);
            group_of.push(number);
        }
        (groups, group_of)
    }

    /// Return the hash of a row's group, or else of its prompt, with its rank as the name of a set. The prompt
    /// of a sub-agent is often the same in many sessions, which are not one, so its session counts in its
    /// place. If all rows go to one split, prompts were not hashed, and any number of the row will do.
    fn group_id(&self, log: &Log, line: usize, row: u32) -> (Rank, u128) {
        let group = log.group.name(row as usize).map(|group| id128(group.as_bytes()));
        let session = || self.sessions[line].filter(|session| session.parent.is_some());
        match (group, self.prompts[line]) {
            (Some(group), _) => (Rank::Group, group),
            (None, Some(_)) if session().is_some() => (Rank::Weak, u128::from(row)),
            (None, prompt) => (Rank::Prompt, prompt.unwrap_or_else(|| u128::from(row))),
        }
    }

    fn order(&self, log: &Log, ordinals: Ordinals, seed: u64) -> Result<Vec<u32>> {
        match ordinals {
            Ordinals::Ranks => Ok(write_order(&self.drawn(), &log.keys, seed)?),
            Ordinals::Digests => {
                // A draw without replacement: each row occurs once.
                let keys = Keys::given(self.rows.iter().map(|&row| log.key_by_digest(row)).collect());
                let places: Vec<u32> = (0..).take(self.rows.len()).collect();
                let order = write_order(&places, &keys, seed)?;
                Ok(order.into_iter().map(|place| self.rows[place as usize]).collect())
            }
        }
    }
}

/// Preference of a hash as the key of a set of lines, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Group,
    Session,
    Prompt,
    Weak,
}

/// Text of a hash. Groups and sessions share their names: a group of forks is named as their first session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum HashOf {
    Name,
    Prompt,
}

/// Return the hashes that link a trajectory to its session.
fn session_keys(session: SessionKeys) -> impl Iterator<Item = (u128, Rank)> {
    let links = [Some(session.own), session.parent].into_iter().flatten();
    std::iter::once((session.root, Rank::Session)).chain(links.map(|key| (key, Rank::Weak)))
}

/// Disjoint sets of hashes, each with the hash that is its key.
#[derive(Default)]
struct DisjointSets {
    numbers: FxHashMap<(HashOf, u128), usize>,
    parents: Vec<usize>,
    keys: Vec<(Rank, u128)>,
}

impl DisjointSets {
    /// Return the number of a hash.
    fn find(&mut self, kind: HashOf, hash: u128) -> usize {
        let next = self.parents.len();
        let number = *self.numbers.entry((kind, hash)).or_insert(next);
        if number == next {
            self.parents.push(next);
            self.keys.push((Rank::Weak, hash));
        }
        number
    }

    /// Offer a hash as the key of the set of a number.
    fn rank(&mut self, number: usize, rank: Rank, hash: u128) {
        let top = self.top(number);
        self.keys[top] = self.keys[top].min((rank, hash));
    }

    fn join(&mut self, one: usize, other: usize) {
        let [one, other] = [one, other].map(|number| self.top(number));
        self.parents[one.max(other)] = one.min(other);
        self.keys[one.min(other)] = self.keys[one].min(self.keys[other]);
    }

    fn top(&mut self, mut number: usize) -> usize {
        while self.parents[number] != number {
            self.parents[number] = self.parents[self.parents[number]];
            number = self.parents[number];
        }
        number
    }
}

/// Shares that a split is tried with until it has enough rows.
const SHARES: [f64; 9] = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5];

/// Return the smallest fractions that leave enough rows in every split that is to have some, and the rows of
/// each.
fn larger(groups: &[Group], dealing: Dealing) -> Result<Option<([f64; 3], [usize; 3])>> {
    for share in SHARES {
        let [_, valid, test] = dealing.fractions.map(|own| if own > 0.0 { own.max(share) } else { 0.0 });
        let fractions = [1.0 - valid - test, valid, test];
        if dealing.fractions[0] <= 0.0 || fractions[0] < share {
            break;
        }
        let split_of = split(groups, &fractions, dealing.seed, dealing.fewest as u64)?;
        let rows = rows_of(groups, &split_of);
        if !is_short(&rows, Dealing { fractions, ..dealing }) {
            return Ok(Some((fractions, rows)));
        }
    }
    Ok(None)
}

/// Return whether a split that is to have rows has too few of them.
fn is_short(rows: &[usize; 3], dealing: Dealing) -> bool {
    (1..3).any(|split| dealing.fractions[split] > 0.0 && rows[split] < dealing.fewest)
}

/// Return the number of rows of each split.
fn rows_of(groups: &[Group], split_of: &[usize]) -> [usize; 3] {
    let mut rows = [0; 3];
    for (group, &split) in groups.iter().zip(split_of) {
        rows[split] += usize::try_from(group.rows).unwrap_or(usize::MAX);
    }
    rows
}

/// Merge splits with too few rows into train; return the number of rows moved from each.
fn merge(groups: &[Group], split_of: &mut [usize], dealing: Dealing) -> [usize; 3] {
    let rows = rows_of(groups, split_of);
    let goes = |split: usize| split > 0 && dealing.fractions[0] > 0.0 && rows[split] < dealing.fewest;
    let merged: [usize; 3] = std::array::from_fn(|split| if goes(split) { rows[split] } else { 0 });
    for split in split_of.iter_mut().filter(|split| merged[**split] > 0) {
        *split = 0;
    }
    merged
}
