//! Self-BLEU: overlap of each sequence with the others.

use super::ngram::{Grams, Sequences};
use super::vendi::SparseCounts;
use crate::check::check_positive;
use crate::error::Result;

/// Treatment of a precision of 0, which would make the whole score 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Smoothing {
    /// It stays: a sequence that shares no n-gram of some order scores 0.
    None,
    /// Orders from 2 on count one match and one n-gram more (Lin and Och 2004).
    AddOne,
}

/// Compute self-BLEU: the BLEU of each sequence with all others as its references. Lower is more diverse.
///
/// ```text
/// BLEU_i = min(1, exp(1 - r_i / c_i)) * (prod_{k=1..n} p_ik)^(1/n)
/// p_ik   = sum_g min(count_i(g), max_{j != i} count_j(g)) / (number of k-grams of i),   g over the k-grams of i
/// ```
///
/// `c_i` is the length of sequence i and `r_i` the length of another that is closest to it, the shorter of two. Weights
/// of the orders are equal. A sequence without an n-gram of some order has precision 0 there. One sequence alone has no
/// references: NaN. Shapes: result `[B]`; its mean is the number of the set. Cost: n times that of numbering n-grams;
/// the two largest counts of each n-gram stand for all references, so that no pair of sequences is compared.
/// Reference: Zhu et al. 2018, Texygen (arXiv:1802.01886); Papineni et al. 2002, BLEU.
///
/// # Errors
/// [`Error::Positive`](crate::Error::Positive) for `n = 0`.
pub fn self_bleu(
    sequences: Sequences<'_>,
    n: usize,
    smoothing: Smoothing,
    threads: usize,
) -> Result<Vec<f64>> {
    check_positive("n", n as f64)?;
    if sequences.len() < 2 {
        return Ok(vec![f64::NAN; sequences.len()]);
    }
    let mut logs = log_brevities(sequences);
    let mut grams = Grams::unigrams(sequences, threads);
    // Beyond the longest sequence no order holds an n-gram, and all of them say the same.
    let longest = sequences.lengths().max().unwrap_or(0);
    for order in 1..=n.min(longest + 1) {
        if order > 1 {
            grams = grams.extend(threads);
        }
        let more = f64::from(smoothing == Smoothing::AddOne && order > 1);
        for (row, matched) in matches(&grams, threads).into_iter().enumerate() {
            let precision = (matched + more) / (grams.row(row).len() as f64 + more);
            // 0 of 0 is not a match either.
            logs[row] += if precision > 0.0 { libm::log(precision) / n as f64 } else { f64::NEG_INFINITY };
        }
    }
    Ok(logs.into_iter().map(libm::exp).collect())
}

/// Count for each sequence the n-grams that another one has as often.
fn matches(grams: &Grams<'_>, threads: usize) -> Vec<f64> {
    let counts = SparseCounts::of(grams, threads);
    let mut tops = vec![[0.0; 2]; grams.distinct];
    for (&gram, &count) in counts.columns.iter().zip(&counts.values) {
        let [first, second] = &mut tops[gram as usize];
        if count > *first {
            (*first, *second) = (count, *first);
        } else if count > *second {
            *second = count;
        }
    }
    // Whoever has the largest count is measured by the second, which is as large where two share it.
    let others = |gram: u32, count: f64| {
        let [first, second] = tops[gram as usize];
        if count >= first { second } else { first }
    };
    let matched = |(&gram, &count): (&u32, &f64)| count.min(others(gram, count));
    counts
        .rows()
        .map(|row| counts.columns[row.clone()].iter().zip(&counts.values[row]).map(matched).sum())
        .collect()
}

/// `min(0, 1 - r / c)` of each sequence; minus infinity for an empty one beside a longer one.
fn log_brevities(sequences: Sequences<'_>) -> Vec<f64> {
    let mut sorted: Vec<usize> = sequences.lengths().collect();
    sorted.sort_unstable();
    let brevity = |length: usize| (1.0 - find_closest(&sorted, length) as f64 / length as f64).min(0.0);
    // An empty sequence beside an empty one is 0 / 0, which `min` would take for no penalty.
    sequences.lengths().map(|length| if length == 0 { f64::NEG_INFINITY } else { brevity(length) }).collect()
}

/// Return the length closest to `length` among the others; `sorted` holds it once for itself.
fn find_closest(sorted: &[usize], length: usize) -> usize {
    let at = sorted.partition_point(|&other| other < length);
    let below = at.checked_sub(1).and_then(|at| sorted.get(at));
    match (below, sorted.get(at + 1)) {
        (Some(&below), Some(&above)) => {
            if length - below <= above - length {
                below
            } else {
                above
            }
        }
        (Some(&one), None) | (None, Some(&one)) => one,
        (None, None) => length,
    }
}
