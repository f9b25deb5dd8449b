//! Evenness of the use of categories, one number from the weights of a list of them, and the dependence of categories on
//! their inputs.
//!
//! A category that was available but not used has weight 0 in the list. Entropy measures the number of used
//! categories and their evenness, Gini their unevenness; neither measures whether the choice depends on the input, which
//! [`mutual_information`] does.

use super::ngram::{NO_PAIR, number, pair, split};
use crate::check::{check_finite, check_length, check_most, check_within};
use crate::error::{Error, Result};
use crate::group::{Groups, numbered};
use crate::numeric::Real;
use crate::numeric::sum::sum;

/// Compute the entropy of categories, in nats.
///
/// ```text
/// H = -sum p ln p,   p = w / sum w
/// ```
///
/// It lies between 0 (one category has everything) and ln K (all K alike); NaN where nothing has weight.
/// Shapes: weights `[K]`. Cost: one logarithm a category. Reference: Shannon 1948.
///
/// # Errors
/// [`Error::NotFinite`] for a weight that is NaN or infinite; [`Error::Number`] for a total beyond f64; [`Error::Outside`] for a
/// negative one.
pub fn entropy<R: Real>(weights: &[R]) -> Result<f64> {
    measure_shares(weights, entropy_of)
}

/// Compute the entropy as a share of the largest that the list allows.
///
/// ```text
/// evenness = H / ln K
/// ```
///
/// K counts every category of the list, used or not: over those used alone, a policy that forgets a category would
/// look more even. One category has no choice in it: 0. NaN where nothing has weight. Reference: Pielou 1966.
///
/// # Errors
/// As [`entropy`].
pub fn evenness<R: Real>(weights: &[R]) -> Result<f64> {
    measure_shares(weights, |shares| match shares.len() {
        1 => 0.0,
        count => (entropy_of(shares) / libm::log(count as f64)).min(1.0),
    })
}

/// Compute the effective number of categories (Hill number): as many equally used ones are as diverse.
///
/// ```text
/// order 0: number with weight,   1: exp(H),   2: 1 / sum p^2
/// ```
///
/// Order 2 is the ESS of the weights. NaN where nothing has weight. Reference: Hill 1973.
///
/// # Errors
/// As [`entropy`]; [`Error::Most`] for an order above 2.
pub fn effective_number<R: Real>(weights: &[R], order: usize) -> Result<f64> {
    check_most("order", order, 2)?;
    measure_shares(weights, |shares| {
        let used = shares.iter().filter(|&&share| share > 0.0).count() as f64;
        let number = match order {
            0 => used,
            1 => libm::exp(entropy_of(shares)),
            _ => 1.0 / sum(shares.iter().map(|share| share * share)),
        };
        number.clamp(1.0, used)
    })
}

/// Compute the Gini coefficient of the weights of categories: half their mean absolute difference over their mean.
///
/// ```text
/// G = sum_i (2 i - K - 1) w_(i) / (K sum w),   w_(1) <= ... <= w_(K)
/// ```
///
/// 0 where all are equal, (K - 1) / K where one has everything; NaN where nothing has weight. Cost: one sort.
/// Reference: Gini 1912.
///
/// # Errors
/// As [`entropy`].
pub fn gini<R: Real>(weights: &[R]) -> Result<f64> {
    measure_shares(weights, |shares| {
        let (mut sorted, count) = (shares.to_vec(), shares.len() as f64);
        sorted.sort_unstable_by(f64::total_cmp);
        let ranked = sorted.iter().enumerate().map(|(at, share)| (2.0 * at as f64 + 1.0 - count) * share);
        sum(ranked).max(0.0) / count
    })
}

/// Return the share of the given categories that have any weight; NaN for an empty list.
///
/// # Errors
/// As [`entropy`].
pub fn coverage<R: Real>(weights: &[R]) -> Result<f64> {
    check(weights)?;
    let used = weights.iter().filter(|weight| weight.widen() > 0.0).count();
    Ok(used as f64 / weights.len() as f64)
}

/// Return the entropy of shares that add up to one.
fn entropy_of(shares: &[f64]) -> f64 {
    let used = shares.iter().filter(|&&share| share > 0.0);
    sum(used.map(|share| -share * libm::log(*share)))
}

/// Return a number of the shares of the weights; NaN where there is no weight to share.
fn measure_shares<R: Real>(weights: &[R], measure: impl Fn(&[f64]) -> f64) -> Result<f64> {
    check(weights)?;
    let total = sum(weights.iter().map(|weight| weight.widen()));
    if !total.is_finite() {
        return Err(Error::Number { what: "total of weights", value: total });
    }
    let shares: Vec<f64> = weights.iter().map(|weight| weight.widen() / total).collect();
    Ok(if total > 0.0 { measure(&shares) } else { f64::NAN })
}

fn check<R: Real>(weights: &[R]) -> Result<()> {
    check_finite("weights", weights)?;
    check_within("weights", weights, 0.0, f64::INFINITY)
}

/// Mutual information of inputs and outputs, in nats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Information {
    /// Rows that have both an input and an output.
    pub rows: usize,
    /// I(X; Y).
    pub mutual: f64,
    /// H(X), of the inputs.
    pub input_entropy: f64,
    /// H(Y), of the outputs.
    pub output_entropy: f64,
    /// H(Y | X), of the outputs within one input.
    pub within_entropy: f64,
    /// Mean excess of `mutual` where few rows fill many pairs.
    pub bias: f64,
}

/// Compute the mutual information of inputs and outputs, over the rows that have both.
///
/// ```text
/// I(X; Y) = sum p(x, y) ln (p(x, y) / (p(x) p(y))) = H(Y) - H(Y | X)
/// bias    = (K_xy - K_x - K_y + 1) / (2 B),   K the numbers of different pairs, inputs and outputs
/// ```
///
/// Entropy alone cannot tell a policy that answers each input in its own way from one that answers all of them from one
/// varied template: the second has high H(Y | X) and I near 0 (template collapse). Outputs are equal where their codes
/// are: clusters, plans, exact texts. The estimate is the plug-in one, which is too high; the bias is that of Miller
/// and Madow, by what was seen. Shapes: inputs `[B]`, outputs `[B]`. NaN where no row has both. Cost: one numbering of
/// pairs.
/// Reference: RAGEN-2 (arXiv:2604.06268); Miller 1955 for the bias.
///
/// # Errors
/// [`Error::Length`] where inputs and outputs differ in rows.
pub fn mutual_information(inputs: &Groups<'_>, outputs: &Groups<'_>, threads: usize) -> Result<Information> {
    check_length("outputs", outputs.rows(), inputs.rows())?;
    let cells = count_pairs(inputs, outputs, threads);
    let xs = count_rows(&cells, 0, inputs.len());
    let ys = count_rows(&cells, 1, outputs.len());
    let present = cells.iter().map(|cell| cell.count).sum::<usize>();
    let rows = present as f64;
    let term = |cell: &PairCount| {
        let ([x, y], count) = (cell.at, cell.count as f64);
        count * libm::log(count * rows / (xs[x] * ys[y]))
    };
    let mutual = (sum(cells.iter().map(term)) / rows).clamp(0.0, f64::INFINITY);
    let output_entropy = entropy(&ys)?;
    Ok(Information {
        rows: present,
        mutual,
        input_entropy: entropy(&xs)?,
        output_entropy,
        within_entropy: (output_entropy - mutual).clamp(0.0, f64::INFINITY),
        bias: (cells.len() as f64 - effective_number(&xs, 0)? - effective_number(&ys, 0)? + 1.0)
            / (2.0 * rows),
    })
}

/// A pair of an input and an output, and its rows.
struct PairCount {
    at: [usize; 2],
    count: usize,
}

/// Return the pairs that occur.
fn count_pairs(inputs: &Groups<'_>, outputs: &Groups<'_>, threads: usize) -> Vec<PairCount> {
    let both = |row| Some(pair(numbered(inputs.code(row)?), numbered(outputs.code(row)?)));
    let pairs: Vec<u64> = (0..inputs.rows()).map(|row| both(row).unwrap_or(NO_PAIR)).collect();
    let (codes, count) = number(&pairs, [inputs.len(), outputs.len()], threads);
    let mut cells: Vec<_> = (0..count).map(|_| PairCount { at: [0, 0], count: 0 }).collect();
    for (&code, &pair) in codes.iter().zip(&pairs) {
        if let Some(cell) = cells.get_mut(code as usize) {
            (cell.at, cell.count) = (split(pair), cell.count + 1);
        }
    }
    cells
}

/// Return the rows of each input, side 0, or of each output, side 1.
fn count_rows(cells: &[PairCount], side: usize, count: usize) -> Vec<f64> {
    let mut rows = vec![0.0; count];
    for cell in cells {
        rows[cell.at[side]] += cell.count as f64;
    }
    rows
}
