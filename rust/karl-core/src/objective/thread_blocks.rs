//! Sequences cut into blocks of about as many tokens, which threads share.
//!
//! The cut depends on the offsets alone: what is folded from the blocks in their order has the same bits for any
//! number of threads.
//!
//! Speed: work for several threads in chunks of whole rollouts. Record: `benches/record/kernels.json`, "policy loss and
//! coefficients, token level, float32".

use std::ops::Range;

use crate::group::offsets::Offsets;
use crate::numeric::parallel::each;

/// Tokens of one block: three columns of f64 then stay in a second-level cache.
const BLOCK: usize = 1 << 15;

/// Fewer tokens than this are not worth a second thread.
const ALONE: usize = 4 * BLOCK;

/// Return the sequences of each block: those that begin in one stretch of [`BLOCK`] tokens.
fn cut(offsets: &Offsets) -> Vec<Range<usize>> {
    let mut blocks = Vec::with_capacity(offsets.values() / BLOCK + 1);
    let (mut first, mut stretch) = (0, 0);
    for (row, tokens) in offsets.rows().enumerate() {
        if tokens.start / BLOCK > stretch {
            blocks.push(first..row);
            (first, stretch) = (row, tokens.start / BLOCK);
        }
    }
    blocks.push(first..offsets.len());
    blocks
}

/// Return the results of `one` for each block and its part of `column`, in the order of the blocks.
///
/// `size` returns the number of elements of the column in a block.
pub(super) fn map<T: Send, R: Send>(
    offsets: &Offsets,
    mut column: &mut [T],
    threads: usize,
    size: impl Fn(&Range<usize>) -> usize,
    one: impl Fn(Range<usize>, &mut [T]) -> R + Sync,
) -> Vec<R> {
    let mut work = Vec::new();
    for rows in cut(offsets) {
        let (block, rest) = column.split_at_mut(size(&rows));
        work.push((rows, block));
        column = rest;
    }
    let threads = if offsets.values() < ALONE { 1 } else { threads.max(1) };
    let share = work.len().div_ceil(threads).max(1);
    let run = |share: &mut [(Range<usize>, &mut [T])]| -> Vec<R> {
        share.iter_mut().map(|(rows, block)| one(rows.clone(), block)).collect()
    };
    each(work.chunks_mut(share), run).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_same_for_any_number_of_threads() {
        let ends = [0, 0, 5, BLOCK, BLOCK, BLOCK + 1, 4 * BLOCK, 4 * BLOCK + 7, 6 * BLOCK, 6 * BLOCK];
        let offsets: Vec<i64> = ends.iter().map(|&end| i64::try_from(end).unwrap()).collect();
        let offsets = Offsets::new("offsets", &offsets, 6 * BLOCK).unwrap();
        let filled = |threads| {
            let mut column = vec![0; offsets.values()];
            let size = |rows: &Range<usize>| ends[rows.end] - ends[rows.start];
            let blocks = map(&offsets, &mut column, threads, size, |rows, block| {
                block.fill(rows.start);
                rows
            });
            (blocks, column)
        };
        let alone = filled(1);
        assert_eq!(alone.0, [0..3, 3..6, 6..8, 8..9]);
        for threads in [0, 2, 3, 64] {
            assert_eq!(filled(threads), alone);
        }
    }
}
