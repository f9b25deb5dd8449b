//! Scores of sets of candidates: the best of a set in each of some directions, on average.

use crate::check::check_length;
use crate::error::{Error, Result};

/// Score each set by the best of its candidates in each direction, on average.
///
/// ```text
/// r_i = mean_k max_m w_ik . R_im
/// ```
///
/// A candidate with a NaN among its rewards does not count; a set without a candidate has NaN. Shapes: `vectors`
/// `[B, D]`, `sets` `[B]` (the number of each candidate's set), `directions` `[S, K, D]`, result `[S]`. Cost: one pass.
/// Reference: Vector Policy Optimization (arXiv:2605.22817).
///
/// # Errors
/// [`Error::Length`] for columns that do not match; [`Error::Row`] for a set that has no directions.
pub fn set_scores(
    vectors: &[f64],
    sets: &[i64],
    directions: &[f64],
    count: usize,
    samples: usize,
) -> Result<Vec<f64>> {
    let size = if sets.is_empty() { 0 } else { vectors.len() / sets.len() };
    check_length("vectors", vectors.len(), sets.len() * size)?;
    check_length("directions", directions.len(), count * samples * size)?;
    let mut best = vec![f64::NEG_INFINITY; count * samples];
    for (index, (candidate, &set)) in vectors.chunks_exact(size.max(1)).zip(sets).enumerate() {
        let Some(own) = usize::try_from(set).ok().filter(|&set| set < count) else {
            return Err(Error::Row { index, row: set, count });
        };
        let wanted = directions[own * samples * size..].chunks_exact(size);
        for (best, direction) in best[own * samples..(own + 1) * samples].iter_mut().zip(wanted) {
            let worth: f64 = direction.iter().zip(candidate).map(|(weight, reward)| weight * reward).sum();
            *best = best.max(worth); // f64::max leaves a NaN out
        }
    }
    let mean = |best: &[f64]| {
        let mean = best.iter().sum::<f64>() / samples as f64;
        if mean == f64::NEG_INFINITY { f64::NAN } else { mean }
    };
    Ok(best.chunks_exact(samples.max(1)).map(mean).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_as_good_as_its_best_candidate_in_each_direction() {
        let vectors = [1.0, 0.0, 0.0, 1.0, 0.4, 0.4, f64::NAN, 9.0];
        let directions = [1.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.25, 0.75, 1.0, 0.0, 0.0, 1.0];
        let found = set_scores(&vectors, &[0, 0, 1, 2], &directions, 3, 2).unwrap();
        assert_eq!(&found[..2], [1.0, 0.4]);
        assert!(found[2].is_nan());
        assert!(set_scores(&vectors, &[0, 0, 1, 3], &directions, 3, 2).is_err());
        assert!(set_scores(&vectors, &[0, 0, 1, 2], &directions[1..], 3, 2).is_err());
    }
}
