//! What other trainers do, defects included: each under its own name, and nowhere else.

use super::Layout;
use super::frame::{Formula, Line, Spread, check_rewards, score, square};
use crate::error::Result;
use crate::real::Real;

/// What a trainer makes of a group with a single present reward.
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
    /// The name Python has it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Raw => "raw",
            Self::Nan => "nan",
        }
    }
}

/// What a trainer makes of a missing reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is left out of the statistics, and its own advantage is 0.
    Zero,
    /// It counts as a reward of 0.
    RewardZero,
    /// Every advantage of its group is NaN.
    Poison,
}

impl Missing {
    /// The name Python has it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::RewardZero => "reward_zero",
            Self::Poison => "poison",
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
    /// Repository, commit and lines it was read from.
    pub source: &'static str,
}

#[rustfmt::skip]
/// All conventions.
pub const CONVENTIONS: [Convention; 6] = [
    Convention { name: "trl", ddof: Some(1), eps: 1e-4, singleton: Singleton::Zero, missing: Missing::Zero,
        source: "huggingface/trl f2cd577 trl/trainer/grpo_trainer.py:2683-2731" },
    Convention { name: "verl", ddof: Some(1), eps: 1e-6, singleton: Singleton::Raw, missing: Missing::Poison,
        source: "volcengine/verl b178a3c verl/trainer/ppo/core_algos.py:267-330" },
    Convention { name: "openrlhf", ddof: Some(1), eps: 1e-9, singleton: Singleton::Nan, missing: Missing::Poison,
        source: "OpenRLHF/OpenRLHF 3c3be62 openrlhf/trainer/ppo_utils/experience_maker.py:270" },
    Convention { name: "mlx_lm_lora", ddof: Some(0), eps: 1e-4, singleton: Singleton::Zero, missing: Missing::RewardZero,
        source: "Goekdeniz-Guelmez/mlx-lm-lora dfaaaed mlx_lm_lora/trainer/grpo_trainer.py:294-325" },
    Convention { name: "tinker", ddof: None, eps: 0.0, singleton: Singleton::Zero, missing: Missing::Poison,
        source: "thinking-machines-lab/tinker-cookbook 9dfcc3a2 tinker_cookbook/rl/data_processing.py:23-42" },
    Convention { name: "prime_rl", ddof: None, eps: 0.0, singleton: Singleton::Zero, missing: Missing::Poison,
        source: "PrimeIntellect-ai/prime-rl 559b447 src/prime_rl/orchestrator/algo/grpo.py:26-45" },
];

impl Convention {
    /// The convention of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        CONVENTIONS.into_iter().find(|convention| convention.name == name)
    }

    /// The advantages as the trainer has them.
    ///
    /// Statistics are f64 here; most trainers keep f32, whose rounding a tiny `eps` blows up, so equal rewards give them
    /// small numbers where these are 0. A row without a group is NaN.
    /// Shapes: rewards `[B]`, result `[B]`. Cost: as [`zscore`](super::zscore()), and a pass for missing rewards.
    ///
    /// # Errors
    /// As [`zscore`](super::zscore()).
    pub fn apply<'a, R: Real>(
        &self,
        rewards: &[R],
        groups: impl Into<Layout<'a>>,
        threads: usize,
    ) -> Result<Vec<f64>> {
        let layout = groups.into();
        layout.check("rewards", rewards.len())?;
        check_rewards(rewards)?;
        if self.missing == Missing::RewardZero {
            let filled = |reward: &R| if reward.widen().is_nan() { 0.0 } else { reward.widen() };
            return score(&rewards.iter().map(filled).collect::<Vec<f64>>(), layout, self, threads);
        }
        let mut advantages = score(rewards, layout, self, threads)?;
        let members = Members::of(rewards, layout);
        layout.each(|group, row| advantages[row] = self.correct(advantages[row], members[group]));
        Ok(advantages)
    }

    /// What the trainer has where the formula has a finite number, or none.
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
    fn line(&self, group: &Spread, mean: f64, squares: f64) -> Line {
        let deviation = |ddof| group.deviation(squares, ddof) + self.eps;
        match self.singleton {
            Singleton::Raw if group.count == 1 => Line { divisor: 1.0 + self.eps, ..Line::less(0.0) },
            _ if group.is_constant() => Line::zero(group),
            _ => Line { divisor: self.ddof.map_or(1.0, deviation), ..Line::less(mean) },
        }
    }
}

/// How many rows a group has, and how many of them have no reward.
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
