//! Tokens of a rollout in pieces that stay in the first-level cache, and how far the policy has moved in them.

use std::ops::Range;

use super::lane::Lane;
use super::rollouts::Part;
use super::statistics::Sums;

/// Tokens of a piece: its columns stay in the first-level cache.
pub(super) const PIECE: usize = 1024;

/// Scratch memory for a piece.
pub(super) struct Room<T> {
    pub(super) log_ratios: [T; PIECE],
    pub(super) ratios: [T; PIECE],
    pub(super) advantages: [T; PIECE],
    pub(super) terms: [T; PIECE],
}

impl<T: Lane> Room<T> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let zeros = [T::default(); PIECE];
        Self { log_ratios: zeros, ratios: zeros, advantages: zeros, terms: zeros }
    }
}

/// Fill in the ratio of each token; a masked one has that of the first which is not, and so moves no statistic.
#[inline(always)]
pub(super) fn own_ratios<T: Lane>(piece: &Part<'_, T>, sums: &mut Sums, room: &mut Room<T>) {
    let (n, kept) = (piece.len(), piece.kept());
    let Room { log_ratios, ratios, terms, .. } = room;
    let (log_ratios, ratios) = (&mut log_ratios[..n], &mut ratios[..n]);
    let Some(old) = piece.old else {
        log_ratios.fill(T::default());
        ratios.fill(T::ONE);
        return;
    };
    piece.log_ratios(old, log_ratios);
    for (ratio, log_ratio) in ratios.iter_mut().zip(&*log_ratios) {
        *ratio = log_ratio.exp();
    }
    sums.drifted(log_ratios, ratios, &mut terms[..n]);
    if kept < n {
        let first = piece.keep.iter().position(|&keep| keep);
        let neutral = first.map_or(T::ONE, |at| ratios[at]);
        for (ratio, &keep) in ratios.iter_mut().zip(piece.keep) {
            *ratio = if keep { *ratio } else { neutral };
        }
    }
    sums.ratios.extend(ratios, kept);
}

/// Take in how far the tokens of a rollout have moved, and their own ratios where `ratios` says so.
#[inline(always)]
pub(super) fn drift<T: Lane>(part: &Part<'_, T>, ratios: bool, sums: &mut Sums, room: &mut Room<T>) {
    let mut other = sums.ratios;
    for first in (0..part.len()).step_by(PIECE) {
        own_ratios(&part.cut(first..part.len().min(first + PIECE)), sums, room);
    }
    if !ratios {
        std::mem::swap(&mut sums.ratios, &mut other);
    }
}

/// A rollout, or the part of it that shares a ratio.
#[derive(Clone, Copy)]
pub(super) struct Unit<'a, T> {
    pub(super) row: usize,
    pub(super) tokens: &'a Range<usize>,
    pub(super) part: Part<'a, T>,
    pub(super) weight: f64,
    /// True if negative advantages of the rollout count as 0.
    pub(super) masked: bool,
}

/// Return places in a batch as places in a rollout or turn.
pub(super) fn local(all: &Range<usize>, part: &Range<usize>) -> Range<usize> {
    part.start - all.start..part.end - all.start
}
