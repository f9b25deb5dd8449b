//! One pass over rewards without storing them: their statistics, their target, and the rows that a draw could need.
//!
//! The key of a row in a weighted reservoir depends on that row alone ([`reservoir`](crate::sample::reservoir)), so
//! that only the rows of the largest keys are kept. The statistics of the others are sums that do not depend on order
//! ([`crate::numeric::exact`]), so that a stream has the same result in any order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::check::check_finite;
use crate::error::{Error, Result};
use crate::filter::Verdict;
use crate::numeric::exact::LogSum;
use crate::reward::{AsymmetricScale, composite_of};
use crate::rng::Key;
use crate::sample::gumbel;
use crate::selection::Selection;
use crate::sketch::Moments;
use crate::target::{Boltzmann, StreamSums, Temperature, check_temperature};

/// Settings of a stream, needed before its first row.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSettings {
    /// The weight of each component of the reward.
    pub weights: Vec<f64>,
    /// True for each component whose weight is shared among the others where it is missing; empty for none.
    pub shared: Vec<bool>,
    /// Rows with a smaller reward are dropped.
    pub min_reward: Option<f64>,
    /// Shaping of a reward before it is tempered; None to temper it unchanged.
    pub shaping: Option<AsymmetricScale>,
    /// b of `exp(b * reward)`.
    pub inverse_temperature: f64,
    /// Seed of the draw.
    pub seed: u64,
    /// Largest number of rows to hold.
    pub room: usize,
}

/// A stream of rewards, and what is held of the rows of the largest keys.
#[derive(Debug)]
pub struct RewardStream<T> {
    settings: StreamSettings,
    held: BinaryHeap<StreamItem<T>>,
    rows: usize,
    /// The largest key that was not held.
    passed: f64,
    verdicts: [u64; 3],
    target: StreamSums,
    /// The sums of `w r` over positive rewards, and of `w |r|` over negative ones.
    expected: [LogSum; 2],
    reward: Moments,
    components: Vec<Moments>,
    kept: (Moments, Vec<Moments>),
}

/// Summary of a finished stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSummary {
    /// Rows by verdict.
    pub verdicts: Vec<(Verdict, u64)>,
    /// The target over the rows that may be drawn.
    pub target: Boltzmann,
    /// The mean reward of the row drawn first; NaN for no rows.
    pub expected_reward: f64,
    /// The reward of all rows.
    pub reward: Moments,
    /// Each component of it.
    pub components: Vec<Moments>,
    /// The reward of the rows that may be drawn, and each component of it.
    pub kept: (Moments, Vec<Moments>),
    /// The largest key that was not held, less log Z; none where every row that may be drawn was.
    pub threshold: Option<f64>,
    /// Number of held rows.
    pub held: usize,
}

impl StreamSummary {
    /// Return a selection of the held rows with the target of the whole stream.
    #[must_use]
    pub fn retarget(&self, held: Selection) -> Selection {
        Selection { target: self.target.clone(), ..held }
    }

    /// Return the number of rows with a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.verdicts.iter().filter(|(one, _)| *one == verdict).map(|(_, count)| count).sum()
    }
}

impl<T> RewardStream<T> {
    /// Return a stream of which nothing has been seen.
    ///
    /// # Errors
    /// As [`composite`](crate::reward::composite) and [`boltzmann`](crate::boltzmann) for the settings they share.
    pub fn new(settings: StreamSettings) -> Result<Self> {
        check_finite("weight", &settings.weights)?;
        check_finite("min_reward", settings.min_reward.as_slice())?;
        check_temperature(Temperature::Inverse(settings.inverse_temperature))?;
        Ok(Self {
            held: BinaryHeap::new(),
            rows: 0,
            passed: f64::NEG_INFINITY,
            verdicts: [0; 3],
            target: StreamSums::default(),
            expected: [LogSum::default(), LogSum::default()],
            reward: Moments::default(),
            components: vec![Moments::default(); settings.weights.len()],
            kept: (Moments::default(), vec![Moments::default(); settings.weights.len()]),
            settings,
        })
    }

    /// Add one row by its key (its ordinal is a hash of its bytes) and the components of its reward, NaN for a
    /// missing one; `item` is called if the row is held.
    ///
    /// Cost: a few `exp`; a hash, two `log` and a place in a heap for a row with a key that may be large enough.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for an infinite component, or a reward with a weight beyond f64.
    pub fn push(&mut self, key: Key, components: &[f64], item: impl FnOnce() -> T) -> Result<()> {
        let index = self.rows;
        self.rows += 1;
        push(&mut self.components, components);
        if let Some(&value) = components.iter().find(|component| component.is_infinite()) {
            return Err(Error::NotFinite { what: "component", index, value });
        }
        let reward = composite_of(components, &self.settings.weights, &self.settings.shared);
        self.reward.push(reward);
        let verdict = self.verdict(reward);
        self.verdicts[place(verdict)] += 1;
        if verdict != Verdict::Kept {
            return Ok(());
        }
        self.kept.0.push(reward);
        push(&mut self.kept.1, components);
        self.add_weight(index, key, reward, item)
    }

    fn verdict(&self, reward: f64) -> Verdict {
        match self.settings.min_reward {
            _ if reward.is_nan() => Verdict::MissingReward,
            Some(minimum) if reward < minimum => Verdict::BelowMinimum,
            _ => Verdict::Kept,
        }
    }

    fn add_weight(&mut self, index: usize, key: Key, reward: f64, item: impl FnOnce() -> T) -> Result<()> {
        let shaped = self.settings.shaping.map_or(reward, |shaping| shaping.of(reward));
        if shaped.is_infinite() {
            return Err(Error::NotFinite { what: "shaped reward", index, value: shaped });
        }
        let log = self.settings.inverse_temperature * shaped;
        if log == f64::INFINITY {
            return Err(Error::NotFinite { what: "log_z", index, value: log });
        }
        self.target.push(log);
        self.expected[usize::from(reward < 0.0)].push(log + libm::log(reward.abs()));
        let full = self.held.len() >= self.settings.room;
        // Not the smallest key that is held: of those passed over, the largest is told.
        let least = if full { self.passed } else { f64::NEG_INFINITY };
        if let Some(rank) = gumbel::key_from(log, self.settings.seed, || key, least) {
            self.hold_item(rank, key, item);
        }
        Ok(())
    }

    fn hold_item(&mut self, rank: f64, key: Key, item: impl FnOnce() -> T) {
        let rank = Rank { key: rank, record: key };
        if self.held.len() < self.settings.room {
            self.held.push(StreamItem { rank, item: item() });
            return;
        }
        match self.held.peek_mut() {
            Some(mut last) if rank < last.rank => {
                self.passed = self.passed.max(last.rank.key);
                *last = StreamItem { rank, item: item() };
            }
            _ => self.passed = self.passed.max(rank.key),
        }
    }

    /// Return the summary of the stream, and the held rows in the order of the draw.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for a log Z beyond f64.
    pub fn finish(self) -> Result<(StreamSummary, impl Iterator<Item = T>)> {
        let target = self.target.fit(self.settings.inverse_temperature).check_log_z()?;
        let log_z = target.log_z().next().unwrap_or(f64::NEG_INFINITY);
        let [above, below] = self.expected.map(|sum| libm::exp(sum.value() - log_z));
        let passed = Some(self.passed).filter(|&passed| passed > f64::NEG_INFINITY);
        let facts = StreamSummary {
            verdicts: VERDICTS.into_iter().zip(self.verdicts).collect(),
            expected_reward: if target.filled == 0 { f64::NAN } else { above - below },
            target,
            reward: self.reward,
            components: self.components,
            kept: self.kept,
            threshold: passed.map(|passed| passed - log_z),
            held: self.held.len(),
        };
        Ok((facts, self.held.into_sorted_vec().into_iter().map(|held| held.item)))
    }
}

fn push(moments: &mut [Moments], components: &[f64]) {
    moments.iter_mut().zip(components).for_each(|(moments, &component)| moments.push(component));
}

/// Possible verdicts on a row of a stream.
const VERDICTS: [Verdict; 3] = [Verdict::Kept, Verdict::MissingReward, Verdict::BelowMinimum];

fn place(verdict: Verdict) -> usize {
    VERDICTS.iter().position(|&one| one == verdict).unwrap_or(0)
}

/// Rank of a row in the draw: by descending key, then in the order of records in a log.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rank {
    key: f64,
    record: Key,
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        // 0 and -0 are equal keys.
        let by_key = other.key.partial_cmp(&self.key)?;
        Some(by_key.then(self.record.cmp(&other.record)))
    }
}

/// A row with what is held of it; the heap has the last of the draw on top.
#[derive(Debug)]
struct StreamItem<T> {
    rank: Rank,
    item: T,
}

impl<T> Ord for StreamItem<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        // No key is NaN.
        self.rank.partial_cmp(&other.rank).unwrap_or(Ordering::Equal)
    }
}

impl<T> PartialOrd for StreamItem<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for StreamItem<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for StreamItem<T> {}
