//! Conventions of other trainers, defects included, each under its own name.
//!
//! Those of torch take float32 rewards as torch has them on x86-64: its order of summation, and where it rounds. It adds
//! vectors of eight, whatever the processor has, in four interleaved ways, and each way in four levels, so that a long column
//! is a tree of short sums. That order is the whole of the difference between a mean of equal rewards and the rewards: eight
//! of 0.3 have a mean one bit away. Columns of 32,768 and more are split over threads by torch itself, where this is not.

use super::engine::score;
use super::engine::stats::{AffineMap, Formula, GroupStats, square};
use crate::check::check_not_infinite;
use crate::error::{Error, Result};
use crate::group::Layout;
use crate::numeric::Real;

/// Treatment of a group with a single present reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Singleton {
    /// Advantage 0.
    Zero,
    /// The reward itself, over `1 + eps` where there is a division: mean 0 and deviation 1 are put in.
    Raw,
    /// NaN: the deviation of one number with ddof 1.
    Nan,
}

impl Singleton {
    /// Return the name Python has it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Raw => "raw",
            Self::Nan => "nan",
        }
    }
}

/// Treatment of a missing reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is left out of the statistics, and its own advantage is 0.
    Zero,
    /// It is an error: the trainer stops.
    Refused,
    /// Every advantage of its group is NaN.
    Poison,
}

impl Missing {
    /// Return the name Python has it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Refused => "refused",
            Self::Poison => "poison",
        }
    }
}

/// Treatment of the rounding of float32 rewards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Single {
    /// `torch.mean` and `torch.std` of the group.
    Torch,
    /// The same of a table with a row a group: the deviation of more than one group goes by another algorithm.
    TorchRows,
    /// `torch.nanmean`, and a deviation made of it, in float32 throughout.
    TorchNan,
    /// Not followed: statistics are f64 for these too.
    Double,
}

impl Single {
    /// Return the name Python has it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Torch => "torch",
            Self::TorchRows => "torch_rows",
            Self::TorchNan => "torch_nan",
            Self::Double => "float64",
        }
    }

    fn mean(self, rewards: &[f32]) -> f32 {
        if self == Self::TorchNan { nan_mean(rewards) } else { mean(rewards) }
    }

    fn deviation(self, rewards: &[f32], groups: usize) -> f32 {
        match self {
            Self::TorchNan => nan_deviation(rewards),
            Self::TorchRows if groups > 1 => deviation_of_row(rewards),
            _ => deviation(rewards),
        }
    }
}

/// A trainer's group advantage, every choice stated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convention {
    /// The name it is asked for by.
    pub name: &'static str,
    /// Taken from the count under the variance; none where there is no division.
    pub ddof: Option<u8>,
    /// Added to the standard deviation.
    pub eps: f64,
    /// A group with a single present reward.
    pub singleton: Singleton,
    /// A missing reward.
    pub missing: Missing,
    /// The rounding of float32 rewards.
    pub single: Single,
    /// Repository, commit and lines it was read from.
    pub source: &'static str,
}

#[rustfmt::skip]
/// All conventions.
pub const CONVENTIONS: [Convention; 6] = [
    Convention { name: "trl", ddof: Some(1), eps: 1e-4, singleton: Singleton::Zero, missing: Missing::Zero,
        single: Single::TorchNan, source: "huggingface/trl f2cd577 trl/trainer/grpo_trainer.py:2683-2731" },
    Convention { name: "verl", ddof: Some(1), eps: 1e-6, singleton: Singleton::Raw, missing: Missing::Poison,
        single: Single::Torch, source: "volcengine/verl b178a3c verl/trainer/ppo/core_algos.py:267-330" },
    Convention { name: "openrlhf", ddof: Some(1), eps: 1e-9, singleton: Singleton::Nan, missing: Missing::Poison,
        single: Single::TorchRows, source: "OpenRLHF/OpenRLHF 3c3be62 openrlhf/trainer/ppo_utils/experience_maker.py:270" },
    Convention { name: "mlx_lm_lora", ddof: Some(0), eps: 1e-4, singleton: Singleton::Zero, missing: Missing::Refused,
        single: Single::Double, source: "Goekdeniz-Guelmez/mlx-lm-lora dfaaaed mlx_lm_lora/trainer/grpo_trainer.py:294-325" },
    Convention { name: "tinker", ddof: None, eps: 0.0, singleton: Singleton::Zero, missing: Missing::Poison,
        single: Single::Torch, source: "thinking-machines-lab/tinker-cookbook 9dfcc3a2 tinker_cookbook/rl/data_processing.py:23-42" },
    Convention { name: "prime_rl", ddof: None, eps: 0.0, singleton: Singleton::Zero, missing: Missing::Poison,
        single: Single::Torch, source: "PrimeIntellect-ai/prime-rl 559b447 src/prime_rl/orchestrator/algo/grpo.py:26-45" },
];

impl Convention {
    /// Return the convention of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        CONVENTIONS.into_iter().find(|convention| convention.name == name)
    }

    /// Compute the advantages of the trainer from statistics in f64: equal rewards have advantage 0.
    ///
    /// Trainers compute in f32, and a tiny `eps` magnifies its rounding; [`apply_single`](Self::apply_single)
    /// reproduces that for float32 rewards. A row without a group has NaN.
    /// Shapes: rewards `[B]`, result `[B]`. Cost: as [`zscore`](super::zscore()), and a pass for missing rewards.
    ///
    /// # Errors
    /// As [`zscore`](super::zscore()); [`Error::NotFinite`] for a missing reward where the trainer stops at one.
    pub fn apply<'a, R: Real>(
        &self,
        rewards: &[R],
        groups: impl Into<Layout<'a>>,
        threads: usize,
    ) -> Result<Vec<f64>> {
        let layout = groups.into();
        self.check(rewards, layout)?;
        let mut advantages = score(rewards, layout, self, threads)?;
        let members = Members::of(rewards, layout);
        layout.each(|group, row| advantages[row] = self.correct(advantages[row], members[group]));
        Ok(advantages)
    }

    /// Return the advantages as the trainer has them of float32 rewards, with its rounding.
    ///
    /// Means and deviations are those of [`Single`], to the bit of torch on x86-64 for groups below 32,768, which is where
    /// torch begins to split a sum over threads; the float32 root of [`Single::TorchNan`] may be a step off. There is no test of equal rewards: where the mean of equal ones is a bit
    /// away from them, they have an advantage that is not 0, and the smaller `eps` is the larger it is.
    /// Shapes: rewards `[B]`, result `[B]`, each an f32. Cost: linear.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); [`Error::NotFinite`] for an advantage beyond f32.
    pub fn apply_single<'a>(
        &self,
        rewards: &[f32],
        groups: impl Into<Layout<'a>>,
        threads: usize,
    ) -> Result<Vec<f64>> {
        let layout = groups.into();
        if self.single == Single::Double {
            return self.apply(rewards, layout, threads);
        }
        self.check(rewards, layout)?;
        let mut advantages = vec![f64::NAN; rewards.len()];
        for rows in members(layout) {
            let group: Vec<f32> = rows.iter().map(|&row| rewards[row]).collect();
            let scores = self.score_single(&group, layout.groups());
            rows.iter().zip(scores).for_each(|(&row, score)| advantages[row] = score.into());
        }
        match advantages.iter().position(|advantage| advantage.is_infinite()) {
            Some(index) => Err(Error::NotFinite { what: "advantage", index, value: advantages[index] }),
            None => Ok(advantages),
        }
    }

    fn check<R: Real>(&self, rewards: &[R], layout: Layout<'_>) -> Result<()> {
        layout.check("rewards", rewards.len())?;
        check_not_infinite("rewards", rewards)?;
        let refused = |&row: &usize| rewards[row].widen().is_nan() && layout.has(row);
        let rows = if self.missing == Missing::Refused { 0..rewards.len() } else { 0..0 };
        match rows.into_iter().find(refused) {
            Some(index) => Err(Error::NotFinite { what: "rewards", index, value: f64::NAN }),
            None => Ok(()),
        }
    }

    /// Return the advantages of a group in f32.
    fn score_single(&self, rewards: &[f32], groups: usize) -> Vec<f32> {
        let (mean, deviation) = match (self.ddof, self.singleton) {
            (_, Singleton::Raw) if rewards.len() == 1 => (0.0, 1.0),
            (None, _) => (self.single.mean(rewards), 1.0),
            _ => (self.single.mean(rewards), self.single.deviation(rewards, groups)),
        };
        let divisor = deviation + f32::narrow(self.eps);
        let zero = self.missing == Missing::Zero;
        let score = |reward: &f32| match (reward - mean) / divisor {
            score if score.is_nan() && zero => 0.0,
            score => score,
        };
        rewards.iter().map(score).collect()
    }

    /// Return the trainer's advantage, given that of the formula.
    fn correct(&self, advantage: f64, members: Members) -> f64 {
        match (self.missing, self.singleton) {
            (Missing::Poison, _) if members.missing > 0 => f64::NAN,
            (_, Singleton::Nan) if members.rows == 1 => f64::NAN,
            (Missing::Zero, _) if advantage.is_nan() => 0.0,
            _ => advantage,
        }
    }
}

impl Formula for Convention {
    const TERMS: bool = true;

    #[inline(always)]
    fn term(&self, reward: f64, mean: f64) -> f64 {
        square(reward, mean)
    }

    #[inline(always)]
    fn line(&self, group: &GroupStats, mean: f64, squares: f64) -> AffineMap {
        let deviation = |ddof| group.deviation(squares, ddof) + self.eps;
        match self.singleton {
            Singleton::Raw if group.count == 1 => {
                AffineMap { divisor: 1.0 + self.eps, ..AffineMap::less(0.0) }
            }
            _ if group.is_constant() => AffineMap::zero(group),
            _ => AffineMap { divisor: self.ddof.map_or(1.0, deviation), ..AffineMap::less(mean) },
        }
    }
}

/// Number of rows of a group, and number of those without a reward.
#[derive(Clone, Copy, Default)]
struct Members {
    rows: usize,
    missing: usize,
}

impl Members {
    fn of<R: Real>(rewards: &[R], layout: Layout<'_>) -> Vec<Self> {
        let mut members = vec![Self::default(); layout.groups()];
        layout.each(|group, row| {
            members[group].rows += 1;
            members[group].missing += usize::from(rewards[row].widen().is_nan());
        });
        members
    }
}

/// Return the rows of each group, in their order.
fn members(layout: Layout<'_>) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); layout.groups()];
    layout.each(|group, row| members[group].push(row));
    members
}

/// The elements of a vector.
const LANES: usize = 8;
/// The sums that are interleaved.
const WAYS: usize = 4;
/// The levels of a sum, each of what the one below it has carried.
const LEVELS: usize = 4;
/// The same, of the digits of a count.
const DIGITS: u32 = 4;
/// The least a level adds before it carries, as a power of two.
const POWER: u32 = 4;

/// `torch.sum`.
fn sum(values: &[f32]) -> f32 {
    let (vectors, rest) = values.as_chunks::<LANES>();
    if vectors.is_empty() {
        let [total] = sum_interleaved(values.as_chunks::<1>().0);
        return total;
    }
    rest.iter().chain(&sum_interleaved(vectors)).fold(0.0, |total, value| total + value)
}

/// Four ways, then what is left over, which the first takes.
fn sum_interleaved<const N: usize>(vectors: &[[f32; N]]) -> [f32; N] {
    let (quads, rest) = vectors.as_chunks::<WAYS>();
    let [mut first, others @ ..] = sum_by_levels(quads);
    rest.iter().chain(&others).for_each(|vector| add(&mut first, vector));
    first
}

/// Each way for itself: a level that is full goes to the next, and all of them are added up at the end.
fn sum_by_levels<const N: usize>(quads: &[[[f32; N]; WAYS]]) -> [[f32; N]; WAYS] {
    let depth = usize::BITS - quads.len().saturating_sub(1).leading_zeros();
    let power = POWER.max(depth / DIGITS);
    let mut levels = [[[0.0; N]; WAYS]; LEVELS];
    let pieces = quads.chunks_exact(1 << power);
    let rest = pieces.remainder();
    for (number, piece) in (1usize..).zip(pieces) {
        for quad in piece {
            add_ways(&mut levels[0], quad);
        }
        carry(&mut levels, number, power);
    }
    for quad in rest {
        add_ways(&mut levels[0], quad);
    }
    let [mut total, above @ ..] = levels;
    for level in &above {
        add_ways(&mut total, level);
    }
    total
}

/// After the piece of this number: a level is full where the number has no digit left below it.
fn carry<const N: usize>(levels: &mut [[[f32; N]; WAYS]; LEVELS], number: usize, power: u32) {
    let mask = (1 << power) - 1;
    for (level, shift) in (1..LEVELS).zip((0..).step_by(power as usize)) {
        let below = std::mem::replace(&mut levels[level - 1], [[0.0; N]; WAYS]);
        add_ways(&mut levels[level], &below);
        if number & (mask << shift) != 0 {
            return;
        }
    }
}

fn add_ways<const N: usize>(to: &mut [[f32; N]; WAYS], quad: &[[f32; N]; WAYS]) {
    to.iter_mut().zip(quad).for_each(|(to, vector)| add(to, vector));
}

fn add<const N: usize>(to: &mut [f32; N], vector: &[f32; N]) {
    to.iter_mut().zip(vector).for_each(|(to, value)| *to += value);
}

/// `torch.mean`.
pub(in crate::advantage) fn mean(values: &[f32]) -> f32 {
    sum(values) / values.len() as f32
}

/// `torch.nanmean`: the mean of those that are there.
pub(in crate::advantage) fn nan_mean(values: &[f32]) -> f32 {
    let present: Vec<f32> = values.iter().map(|value| if value.is_nan() { 0.0 } else { *value }).collect();
    sum(&present) / count(values) as f32
}

fn count(values: &[f32]) -> usize {
    values.iter().filter(|value| !value.is_nan()).count()
}

/// `torch.std` of a tensor as a whole: squares about the float32 mean, in f64.
pub(in crate::advantage) fn deviation(values: &[f32]) -> f32 {
    let mean = f64::from(mean(values));
    let squares = values.iter().fold(0.0, |sum, &value| sum + (f64::from(value) - mean).powi(2));
    root(squares, values.len())
}

/// `torch.std` of each row of a table: a running mean and squares, in f64. Of equal rewards it is 0.
pub(in crate::advantage) fn deviation_of_row(values: &[f32]) -> f32 {
    let (mut mean, mut squares) = (0.0, 0.0);
    for (seen, &value) in (1u32..).zip(values) {
        let apart = f64::from(value) - mean;
        mean += apart / f64::from(seen);
        squares += apart * (f64::from(value) - mean);
    }
    root(squares, values.len())
}

#[allow(clippy::cast_possible_truncation, reason = "torch rounds here")]
fn root(squares: f64, count: usize) -> f32 {
    (squares / (count as f64 - 1.0)).sqrt() as f32
}

/// TRL's `nanstd`: float32 throughout, and Bessel's correction as a factor.
pub(in crate::advantage) fn nan_deviation(values: &[f32]) -> f32 {
    let mean = nan_mean(values);
    let squares: Vec<f32> = values.iter().map(|value| (value - mean) * (value - mean)).collect();
    let count = count(values) as f32;
    (nan_mean(&squares) * (count / (count - 1.0))).sqrt()
}
