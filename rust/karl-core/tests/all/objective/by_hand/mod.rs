//! Objectives on a few tokens, worked out by hand.

#![allow(clippy::panic, clippy::float_cmp, reason = "tests: a failure is a panic, and some values are exact")]
#![allow(clippy::disallowed_methods, reason = "formulas as they are written")]

mod bounds;
mod policy_gradients;
mod rows;

use karl_core::Offsets;
use karl_core::objective::{
    Advantages, Aggregate, Evaluation, Penalty, Per, PolicyGradient, Ratio, Rollouts, Update, policy_gradient,
};

fn close(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-12 * wanted.abs().max(1.0), "{found} is not {wanted}");
    }
}

/// Return where each of some rows begins, and the end of the last.
fn offsets_of<T>(rows: &[&[T]]) -> Vec<i64> {
    let ends = rows.iter().scan(0, |end, row| {
        *end += i64::try_from(row.len()).unwrap();
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Evaluate tokens of one rollout with these ratios, each with its advantage.
fn tokens(ratios: &[f64], advantages: &[f64], objective: &PolicyGradient<'_>) -> (Evaluation, Vec<f64>) {
    rollouts(&[ratios], advantages, objective)
}

/// Evaluate rollouts with the ratios of these rows, each token with its advantage.
fn rollouts(rows: &[&[f64]], advantages: &[f64], objective: &PolicyGradient<'_>) -> (Evaluation, Vec<f64>) {
    let mask = vec![true; rows.iter().map(|row| row.len()).sum()];
    masked_rollouts(rows, &mask, Advantages::double(advantages, Per::Token), objective)
}

/// As `rollouts`, with a mask and advantages of any unit.
fn masked_rollouts(
    rows: &[&[f64]],
    mask: &[bool],
    advantages: Advantages<'_>,
    objective: &PolicyGradient<'_>,
) -> (Evaluation, Vec<f64>) {
    let logp: Vec<f64> = rows.iter().flat_map(|row| row.iter().map(|ratio| ratio.ln())).collect();
    let (old, starts) = (vec![0.0; logp.len()], offsets_of(rows));
    let offsets = Offsets::new("offsets", &starts, logp.len()).unwrap();
    let batch = Rollouts::new(&logp, Some(&old), None, mask, offsets).unwrap();
    let mut out = vec![f64::NAN; logp.len()];
    (policy_gradient(&batch, advantages, objective, &mut out, 1).unwrap(), out)
}

/// Return the sum over tokens, each by its own ratio.
fn by_token(update: Update) -> PolicyGradient<'static> {
    PolicyGradient {
        ratio: Ratio::Token,
        update,
        mask_negatives: None,
        penalty: Penalty::None,
        aggregate: Aggregate::TokenMean { tokens: Some(1.0) },
        row_weights: None,
    }
}
