//! The effective number of different sequences.

use std::ops::Range;

use super::ngram::{Grams, Sequences};
use crate::error::Result;
use crate::group::numbered;
use crate::numeric::parallel::{self, in_parts};
use crate::numeric::sum::sum;

/// A sparse matrix: the columns of each row that hold a number, in rising order.
pub(super) struct SparseCounts {
    starts: Vec<usize>,
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f64>,
    width: usize,
}

impl SparseCounts {
    /// Return the count of each n-gram in each sequence.
    pub(super) fn of(grams: &Grams<'_>, threads: usize) -> Self {
        let parts = parallel::map(grams.rows(), threads, |rows| Self::of_rows(grams, rows));
        let mut all =
            Self { starts: vec![0], columns: Vec::new(), values: Vec::new(), width: grams.distinct };
        for part in parts {
            let before = all.columns.len();
            all.starts.extend(part.starts.iter().map(|start| before + start));
            all.columns.extend(part.columns);
            all.values.extend(part.values);
        }
        all
    }

    /// Return the same of some rows; `starts` has their ends alone.
    fn of_rows(grams: &Grams<'_>, rows: Range<usize>) -> Self {
        let mut part = Self { starts: Vec::new(), columns: Vec::new(), values: Vec::new(), width: 0 };
        let mut sorted = Vec::new();
        for row in rows {
            sorted.clear();
            sorted.extend_from_slice(grams.row(row));
            sorted.sort_unstable();
            for run in sorted.chunk_by(|a, b| a == b) {
                part.columns.push(run[0]);
                part.values.push(run.len() as f64);
            }
            part.starts.push(part.columns.len());
        }
        part
    }

    fn height(&self) -> usize {
        self.starts.len() - 1
    }

    /// Return the range of the entries of each row.
    pub(super) fn rows(&self) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        self.starts.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// Return the entries of a row.
    fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let entries = self.starts[row]..self.starts[row + 1];
        self.columns[entries.clone()]
            .iter()
            .map(|&column| column as usize)
            .zip(self.values[entries].iter().copied())
    }

    /// Rows at length one; those without an entry have no direction and go.
    fn normalise(mut self) -> Self {
        let rows: Vec<_> = self.rows().filter(|row| !row.is_empty()).collect();
        for row in &rows {
            let values = &mut self.values[row.clone()];
            let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
            for value in values {
                *value /= length;
            }
        }
        self.starts.dedup();
        self
    }

    fn transpose(&self) -> Self {
        let mut starts = vec![0; self.width + 1];
        self.columns.iter().for_each(|&column| starts[column as usize + 1] += 1);
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let mut next = starts.clone();
        let (mut columns, mut values) = (vec![0; self.columns.len()], vec![0.0; self.values.len()]);
        for row in 0..self.height() {
            for (column, value) in self.row(row) {
                let at = next[column];
                next[column] += 1;
                (columns[at], values[at]) = (numbered(row), value);
            }
        }
        Self { starts, columns, values, width: self.height() }
    }

    /// Return the products that a row of `M M^T` takes, M being the transpose: the squares of the lengths of the
    /// rows.
    fn products(&self) -> usize {
        self.rows().map(|row| row.len() * row.len()).sum()
    }
}

/// A matrix and its transpose.
struct Pair {
    rows: SparseCounts,
    columns: SparseCounts,
}

impl Pair {
    fn swap(self) -> Self {
        Self { rows: self.columns, columns: self.rows }
    }

    /// Hand the rows of `rows * rows^T` to `one`, as a full row and the places in it that are not 0; one result a
    /// row, in their order.
    fn gram_rows<T: Send>(&self, threads: usize, one: impl Fn(&[f64], &[usize]) -> T + Sync) -> Vec<T> {
        let part = |rows: Range<usize>| -> Vec<T> {
            let mut sums = vec![0.0; self.rows.height()];
            let mut touched = Vec::new();
            let result = |row| {
                self.add_products(row, &mut sums, &mut touched);
                let result = one(&sums, &touched);
                touched.drain(..).for_each(|at| sums[at] = 0.0);
                result
            };
            rows.map(result).collect()
        };
        in_parts(self.rows.height(), threads, part).into_iter().flatten().collect()
    }

    fn add_products(&self, row: usize, sums: &mut [f64], touched: &mut Vec<usize>) {
        for (column, left) in self.rows.row(row) {
            for (other, right) in self.columns.row(column) {
                // All entries are above 0, so a sum of 0 has seen none.
                if sums[other] == 0.0 {
                    touched.push(other);
                }
                sums[other] += left * right;
            }
        }
    }
}

/// Counts of n-grams at length one, the rows being sequences.
fn normalise_counts(sequences: Sequences<'_>, n: usize, threads: usize) -> Result<Pair> {
    let rows = SparseCounts::of(&Grams::of(sequences, n, threads)?, threads).normalise();
    let columns = rows.transpose();
    Ok(Pair { rows, columns })
}

/// Return the Vendi score of order 2 of sequences, by the cosine of their n-gram counts.
///
/// ```text
/// vendi_2 = 1 / sum lambda^2 = B^2 / ||K||_F^2,   K_ij = cos(counts_i, counts_j)
/// ```
///
/// It lies between 1 (all sequences have the same n-grams in the same proportions) and B (no two share one). Sequences
/// shorter than n have no direction and are left out; NaN where all are. Cost: the products of `K` or of the n-gram
/// side of it, whichever are fewer; one row of it at a time is held, never the matrix.
/// Reference: Friedman and Dieng 2022 (arXiv:2210.02410); Pasarkar and Dieng 2023 (arXiv:2310.12952) for the order.
///
/// # Errors
/// [`Error::Positive`](crate::Error::Positive) for `n = 0`.
pub fn vendi_ngrams(sequences: Sequences<'_>, n: usize, threads: usize) -> Result<f64> {
    let pair = normalise_counts(sequences, n, threads)?;
    let count = pair.rows.height() as f64;
    // The side whose products are the squares of the other's rows.
    let cheap = if pair.columns.products() <= pair.rows.products() { pair } else { pair.swap() };
    let squares =
        cheap.gram_rows(threads, |sums, touched| touched.iter().map(|&at| sums[at] * sums[at]).sum::<f64>());
    let score = count * count / sum(squares.into_iter());
    Ok(score.clamp(1.0, count.max(1.0)))
}

/// Symmetric matrix with the nonzero eigenvalues of `K / B`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gram {
    /// Its rows, end to end.
    pub values: Vec<f64>,
    /// Number of rows.
    pub size: usize,
}

/// Return the smaller of `K / B` and its n-gram side, for [`vendi_ngrams`] of order 1 with another eigenvalue solver.
///
/// ```text
/// X X^T / B  or  X^T X / B,   X_ig = count_i(g) / ||counts_i||
/// ```
///
/// Both have the same eigenvalues but for zeros. Sequences shorter than n are left out. Shapes: result `[m, m]`, m
/// the lesser of sequences and different n-grams. Cost: that of its products.
///
/// # Errors
/// [`Error::Positive`](crate::Error::Positive) for `n = 0`.
pub fn ngram_gram(sequences: Sequences<'_>, n: usize, threads: usize) -> Result<Gram> {
    let pair = normalise_counts(sequences, n, threads)?;
    let count = pair.rows.height() as f64;
    let small = if pair.rows.height() <= pair.columns.height() { pair } else { pair.swap() };
    let rows = small.gram_rows(threads, |sums, _| sums.iter().map(|sum| sum / count).collect::<Vec<_>>());
    Ok(Gram { values: rows.concat(), size: small.rows.height() })
}
