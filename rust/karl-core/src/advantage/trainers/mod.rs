//! Conventions of other trainers, defects included, each under its own name.

mod torch_f32;

use super::engine::apply::score;
use super::engine::stats::{AffineMap, Formula, GroupStats, square};
use crate::check::check_not_infinite;
use crate::error::{Error, Result};
use crate::group::Layout;
use crate::numeric::float::Real;

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
        if self == Self::TorchNan { torch_f32::nan_mean(rewards) } else { torch_f32::mean(rewards) }
    }

    fn deviation(self, rewards: &[f32], groups: usize) -> f32 {
        match self {
            Self::TorchNan => torch_f32::nan_deviation(rewards),
            Self::TorchRows if groups > 1 => torch_f32::deviation_of_row(rewards),
            _ => torch_f32::deviation(rewards),
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
            let scores = self.rounded(&group, layout.groups());
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
    fn rounded(&self, rewards: &[f32], groups: usize) -> Vec<f32> {
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
