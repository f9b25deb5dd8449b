//! Tokens of a rollout that a balance leaves out: those that moved far enough where the reward sends them.

use super::real_arithmetic::RealArithmetic;
use super::rollouts::{PIECE, RolloutPart};

/// The tokens of a rollout that count: those with a log ratio that is not beyond a bound, where its reward sends it.
#[derive(Clone, Copy)]
pub(super) enum TokenChoice {
    AtMost(f64),
    AtLeast(f64),
}

impl TokenChoice {
    /// Return the choice for a reward, by the distances of the ratio from 1; None, for all tokens, where it is 0.
    pub(super) fn of((low, high): (f64, f64), reward: f64) -> Option<Self> {
        if reward > 0.0 {
            Some(Self::AtMost(libm::log1p(high)))
        } else if reward < 0.0 {
            Some(Self::AtLeast(libm::log1p(-low)))
        } else {
            None
        }
    }

    /// Return a piece with the mask of the tokens that are left in.
    #[inline(always)]
    pub(super) fn within<'a, T: RealArithmetic>(
        self,
        piece: &RolloutPart<'a, T>,
        room: &'a mut [bool; PIECE],
    ) -> RolloutPart<'a, T> {
        let Some(old) = piece.old else { return *piece };
        let given = piece.logp.iter().zip(old).zip(piece.keep);
        for (chosen, ((&logp, &old), &keep)) in room.iter_mut().zip(given) {
            let log_ratio = logp - old;
            let beyond = match self {
                Self::AtMost(bound) => log_ratio > T::narrow(bound),
                Self::AtLeast(bound) => log_ratio < T::narrow(bound),
            };
            *chosen = keep & !beyond;
        }
        RolloutPart { keep: &room[..piece.len()], ..*piece }
    }
}
