//! Slow twins of the crate's functions: each one is its definition, written down.
//!
//! No grouping, no sorting tricks, no log space, no compensation. Groups come as one optional code a row.

use karl_core::filter::Verdict;
use karl_core::numeric::sum::sum;
use karl_core::{Groups, Rules, Score};

/// The codes as the crate wants them.
pub(crate) fn groups(codes: &[Option<u8>]) -> Groups<'static> {
    let count = codes.iter().flatten().max().map_or(0, |&most| usize::from(most) + 1);
    let codes: Vec<u32> = codes.iter().map(|code| code.map_or(Groups::NONE, u32::from)).collect();
    Groups::from_codes(codes, count).unwrap()
}

/// The present rewards of the group of `row`.
fn peers(rewards: &[f64], codes: &[Option<u8>], row: usize) -> Vec<f64> {
    (0..rewards.len())
        .filter(|&j| codes[j] == codes[row] && !rewards[j].is_nan())
        .map(|j| rewards[j])
        .collect()
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(crate) fn variance(values: &[f64], ddof: u8) -> f64 {
    let mean = mean(values);
    values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (values.len() as f64 - f64::from(ddof))
}

/// Mean and variance by two compensated passes; none where there are no more than `ddof` values.
pub(crate) fn mean_and_variance(values: &[f64], ddof: u8) -> Option<(f64, f64)> {
    if values.len() <= usize::from(ddof) {
        return None;
    }
    let mean = sum(values.iter().copied()) / values.len() as f64;
    let squares = sum(values.iter().map(|value| (value - mean) * (value - mean)));
    Some((mean, squares / (values.len() as f64 - f64::from(ddof))))
}

fn all_equal(values: &[f64]) -> bool {
    values.iter().all(|x| (x - values[0]).abs() == 0.0)
}

/// The score of each row, one row at a time.
pub(crate) fn score(score: Score, rewards: &[f64], codes: &[Option<u8>]) -> Vec<f64> {
    let of_row = |row: usize| {
        let (reward, peers) = (rewards[row], peers(rewards, codes, row));
        if score == Score::Raw {
            return reward;
        }
        if codes[row].is_none() || reward.is_nan() {
            return f64::NAN;
        }
        if all_equal(&peers) {
            return 0.0;
        }
        match score {
            Score::Raw => reward,
            Score::Centre => reward - mean(&peers),
            Score::ZScore { ddof, eps } => (reward - mean(&peers)) / (variance(&peers, ddof).sqrt() + eps),
            Score::LeaveOneOut => reward - (peers.iter().sum::<f64>() - reward) / (peers.len() as f64 - 1.0),
        }
    };
    (0..rewards.len()).map(of_row).collect()
}

/// `log sum exp` by its definition: right as long as `exp` neither overflows nor underflows.
pub(crate) fn log_sum_exp(values: &[f64]) -> f64 {
    libm::log(values.iter().map(|&x| libm::exp(x)).sum())
}

/// `(sum w)^2 / sum w^2`.
pub(crate) fn ess(weights: &[f64]) -> f64 {
    weights.iter().sum::<f64>().powi(2) / weights.iter().map(|w| w * w).sum::<f64>()
}

/// The weight of each row, normalised within its scope; 0 for a dropped row.
pub(crate) fn boltzmann(scores: &[f64], partition: &[Option<u8>], inverse_temperature: f64) -> Vec<f64> {
    let weight = |row: usize| {
        if partition[row].is_none() || scores[row].is_nan() {
            return 0.0;
        }
        let total: f64 =
            peers(scores, partition, row).iter().map(|s| libm::exp(inverse_temperature * s)).sum();
        libm::exp(inverse_temperature * scores[row]) / total
    };
    (0..scores.len()).map(weight).collect()
}

/// The verdict of each row, the rules tried one after another on one row after another.
pub(crate) fn verdicts(
    rules: &Rules,
    rewards: &[f64],
    codes: &[Option<u8>],
    fingerprints: &[u128],
) -> Vec<Verdict> {
    let mut seen = Vec::new();
    let mut verdict = |row: usize| {
        if rewards[row].is_nan() {
            return Verdict::MissingReward;
        }
        if rules.dedup && seen.contains(&(codes[row], fingerprints[row])) {
            return Verdict::Duplicate;
        }
        seen.push((codes[row], fingerprints[row]));
        if rules.min_reward.is_some_and(|minimum| rewards[row] < minimum) {
            return Verdict::BelowMinimum;
        }
        if rules.drop_constant_groups && codes[row].is_some() && all_equal(&peers(rewards, codes, row)) {
            let alone = peers(rewards, codes, row).len() < 2;
            return if alone { Verdict::GroupOfOne } else { Verdict::ConstantGroup };
        }
        Verdict::Kept
    };
    (0..rewards.len()).map(&mut verdict).collect()
}

/// Rows by descending key, ties by row, one maximum after another.
pub(crate) fn ranking(keys: &[f64]) -> Vec<u32> {
    let mut left: Vec<usize> = (0..keys.len()).filter(|&row| keys[row] > f64::NEG_INFINITY).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let mut best = 0;
        for place in 1..left.len() {
            if keys[left[place]] > keys[left[best]] {
                best = place;
            }
        }
        order.push(u32::try_from(left.remove(best)).unwrap());
    }
    order
}

/// A sequential draw that passes over rows of groups that are full.
pub(crate) fn capped(keys: &[f64], codes: &[Option<u8>], most: usize) -> Vec<u32> {
    let mut drawn: Vec<u32> = Vec::new();
    for row in ranking(keys) {
        let code = codes[row as usize];
        let of_group = drawn.iter().filter(|&&other| codes[other as usize] == code).count();
        if code.is_none() || of_group < most {
            drawn.push(row);
        }
    }
    drawn
}

/// All ordered draws of k without replacement and their probabilities (Plackett-Luce).
pub(crate) fn ordered_draws(weights: &[f64], k: usize) -> Vec<(Vec<usize>, f64)> {
    if k == 0 {
        return vec![(Vec::new(), 1.0)];
    }
    let mut longer = Vec::new();
    for (rows, probability) in ordered_draws(weights, k - 1) {
        let left: f64 = (0..weights.len()).filter(|row| !rows.contains(row)).map(|row| weights[row]).sum();
        for next in (0..weights.len()).filter(|row| !rows.contains(row)) {
            let rows = rows.iter().copied().chain([next]).collect();
            longer.push((rows, probability * weights[next] / left));
        }
    }
    longer
}

/// The probability that each row is among the k drawn.
pub(crate) fn inclusion(weights: &[f64], k: usize) -> Vec<f64> {
    let draws = ordered_draws(weights, k);
    let with = |row| draws.iter().filter(|(rows, _)| rows.contains(&row)).map(|(_, p)| p).sum();
    (0..weights.len()).map(with).collect()
}
