//! Many draws with replacement by one table: each draw costs two hashes and one look, whatever the number of rows.
//!
//! The table has as many cells of one size as there are rows. A cell holds a part of its own row and is filled up with a
//! part of one other; a draw picks a cell, and a height in it (Walker 1977; Vose 1991).
//!
//! Vose's construction here: rows below the mean and rows not below it stand on two stacks, in row order; the last of the
//! first gets a cell, filled up from the last of the second, which then goes to the stack where it belongs. Weights are the
//! integers of [`Copies`](super::Copies), so the parts of a row add up to its weight without any rounding; with floats, what
//! the subtractions lose ends in the last cells.
//!
//! Speed: one table look-up a draw. Record: `benches/record/kernels.json`, "with replacement: 1,000,000 draws of
//! 1,000,000 rows".

use super::with_replacement::part;
use super::{Weighted, with_replacement};
use crate::error::{Error, Result};
use crate::group::{check_rows, numbered};
use crate::rng::keys::Keys;
use crate::rng::xxh3::Hashes;
use crate::rng::{Key, Purpose};

/// A cell: its own row below the cut, another from there on.
#[derive(Clone, Copy, Debug)]
struct AliasCell {
    cut: u128,
    other: u32,
}

/// Draws that are made together.
const AHEAD: usize = 64;

/// An alias table over rows.
///
/// ```
/// use karl_core::sample::Alias;
/// let alias = Alias::new(&[0.0, f64::NEG_INFINITY, 3.0_f64.ln()])?;
/// assert_eq!(alias.probabilities(), [0.25, 0.0, 0.75]);
/// assert!(alias.draw(100, 7).iter().all(|&row| row != 1));
/// # Ok::<(), karl_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Alias {
    cells: Vec<AliasCell>,
    /// The size of a cell: the total of the weights, of which a row has `rows` times its own.
    size: u128,
}

impl Alias {
    /// Return the table of log weights, to which any constant may be added; minus infinity is never drawn.
    ///
    /// Weights are relative to the largest, cut to multiples of 2^-62. Cost: two passes, one `exp` a row; 32 bytes a row.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for a log weight that is NaN or plus infinity; [`Error::Length`] for more rows than a `u32` can
    /// count; [`Error::Positive`] where no row has any weight.
    pub fn new(log_weights: &[f64]) -> Result<Self> {
        check_rows(log_weights.len())?;
        let keys = Keys::of_indices(log_weights.len());
        let weights = with_replacement::whole_weights(Weighted::by_logs(log_weights, &keys)?);
        let size: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        if size == 0 {
            return Err(Error::Positive { what: "total weight", value: 0.0 });
        }
        let rows = weights.len() as u128;
        Ok(Self {
            cells: build_cells(weights.iter().map(|&weight| u128::from(weight) * rows).collect(), size),
            size,
        })
    }

    /// Return the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Return whether there is no row; always false, since a table has rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Return the probability of each row, from the table as it was built: the weights over their total.
    #[must_use]
    pub fn probabilities(&self) -> Vec<f64> {
        let mut parts: Vec<u128> = self.cells.iter().map(|cell| cell.cut).collect();
        for cell in &self.cells {
            parts[cell.other as usize] += self.size - cell.cut;
        }
        let rows = self.cells.len() as u128;
        parts.into_iter().map(|part| (part / rows) as f64 / self.size as f64).collect()
    }

    /// `count` independent draws.
    ///
    /// ```text
    /// draw j: cell = floor(rows u_j),  height = floor(size v_j);   the cell's own row where height < cut, else the other
    /// ```
    ///
    /// `u_j` and `v_j` are the uniforms of (seed, j) with ordinals 0 and 1. Cost: two hashes and one look a draw.
    #[must_use]
    pub fn draw(&self, count: usize, seed: u64) -> Vec<u32> {
        let hashes = Hashes::new(seed, Purpose::Alias);
        let mut rows = vec![0; count];
        for (at, rows) in rows.chunks_mut(AHEAD).enumerate() {
            self.draw_rows(at * AHEAD, &hashes, rows);
        }
        rows
    }

    /// Draws from the `first` on. All cells are fetched before any is looked at: one that is far away holds up no other.
    fn draw_rows(&self, first: usize, hashes: &Hashes, rows: &mut [u32]) {
        let (mut cells, mut heights) = ([AliasCell { cut: 0, other: 0 }; AHEAD], [0; AHEAD]);
        for (at, row) in rows.iter_mut().enumerate() {
            let uniform = |ordinal| hashes.uniform(Key { id: (first + at) as u128, ordinal });
            #[allow(clippy::cast_possible_truncation, reason = "below the number of rows")]
            let cell = part(self.cells.len() as u128, uniform(0)) as usize;
            (*row, cells[at], heights[at]) = (numbered(cell), self.cells[cell], part(self.size, uniform(1)));
        }
        for ((row, cell), height) in rows.iter_mut().zip(cells).zip(heights) {
            *row = if height < cell.cut { *row } else { cell.other };
        }
    }
}

/// Return the cells of parts that add up to as many cells as there are parts.
fn build_cells(mut left: Vec<u128>, size: u128) -> Vec<AliasCell> {
    let mut cells: Vec<AliasCell> =
        (0..left.len()).map(|row| AliasCell { cut: size, other: numbered(row) }).collect();
    let (mut below, mut above): (Vec<usize>, Vec<usize>) = (0..left.len()).partition(|&row| left[row] < size);
    while let (Some(row), Some(&giver)) = (below.pop(), above.last()) {
        cells[row] = AliasCell { cut: left[row], other: numbered(giver) };
        left[giver] -= size - left[row];
        if left[giver] < size {
            above.pop();
            below.push(giver);
        }
    }
    cells
}
