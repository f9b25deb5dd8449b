//! Dependence of outputs on their inputs.

use super::evenness::{effective_number, entropy};
use super::ngram::{NO_PAIR, number, pair, split};
use crate::check::check_length;
use crate::error::Result;
use crate::group::{Groups, numbered};
use crate::numeric::sum::sum;

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
/// [`Error::Length`](crate::Error::Length) where inputs and outputs differ in rows.
pub fn mutual_information(inputs: &Groups<'_>, outputs: &Groups<'_>, threads: usize) -> Result<Information> {
    check_length("outputs", outputs.rows(), inputs.rows())?;
    let cells = cells(inputs, outputs, threads);
    let xs = margin(&cells, 0, inputs.len());
    let ys = margin(&cells, 1, outputs.len());
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
fn cells(inputs: &Groups<'_>, outputs: &Groups<'_>, threads: usize) -> Vec<PairCount> {
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
fn margin(cells: &[PairCount], side: usize, count: usize) -> Vec<f64> {
    let mut rows = vec![0.0; count];
    for cell in cells {
        rows[cell.at[side]] += cell.count as f64;
    }
    rows
}
