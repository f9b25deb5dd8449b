//! Passes over rows on several threads, with results that do not depend on how many.
//!
//! Rows are cut into fixed blocks, whatever the number of threads, and the results stand in the order of the blocks:
//! what is folded from them has the same bits everywhere.
//!
//! Speed: a second core. Record: `benches/record/kernels.json`, tables of 1 and 2 cores, such as "log-sum-exp of
//! 10,000,000 values".

use std::ops::Range;
use std::thread;

/// Rows of one block: large enough to hide the cost of handing it out, small enough that its columns stay in cache.
pub(crate) const BLOCK: usize = 4096;

/// Fewer rows than this are not worth a second thread: most kernels are done with them before it has started.
pub const ALONE: usize = 8 * BLOCK;

/// Return one result per block of rows, in the order of the blocks. The calling thread computes its share of them.
pub(crate) fn map<T: Send>(rows: usize, threads: usize, one: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let blocks = rows.div_ceil(BLOCK);
    let run = |blocks: Range<usize>| -> Vec<T> {
        blocks.map(|block| one(block * BLOCK..rows.min((block + 1) * BLOCK))).collect()
    };
    in_parts(blocks, if rows < ALONE { 1 } else { threads }, run).into_iter().flatten().collect()
}

/// Return one result per part, for `0..count` cut into as many parts as there are threads, in the order of the parts.
pub fn in_parts<T: Send>(count: usize, threads: usize, run: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let threads = threads.clamp(1, count.max(1));
    each((0..threads).map(|at| count * at / threads..count * (at + 1) / threads), run)
}

/// Run one piece of work a thread; the results stand in the order of the pieces. The calling thread takes the first.
pub fn each<T: Send, R: Send>(pieces: impl IntoIterator<Item = T>, run: impl Fn(T) -> R + Sync) -> Vec<R> {
    let run = &run;
    let mut work: Vec<(Option<T>, Option<R>)> = pieces.into_iter().map(|piece| (Some(piece), None)).collect();
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for (piece, result) in &mut work {
        tasks.push(Box::new(move || *result = piece.take().map(run)));
    }
    run_all(tasks);
    work.into_iter().filter_map(|(_, result)| result).collect()
}

/// A piece of work that keeps its own result.
type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Run each task on a thread, the first on the calling one; a panic goes on in the caller.
///
/// Tasks are boxed so that what starts threads is compiled once, and not for each kernel: a fifth of the extension.
fn run_all(tasks: Vec<Task<'_>>) {
    thread::scope(|scope| {
        let mut tasks = tasks.into_iter();
        let first = tasks.next();
        let workers: Vec<_> = tasks.map(|task| scope.spawn(task)).collect();
        if let Some(first) = first {
            first();
        }
        for worker in workers {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// Fill a column block by block; `one` gets the first row of a block and the block to fill.
pub(crate) fn fill<T: Send>(column: &mut [T], threads: usize, one: impl Fn(usize, &mut [T]) + Sync) {
    let rows = column.len();
    let threads = if rows < ALONE { 1 } else { threads.max(1) };
    let share = rows.div_ceil(BLOCK).div_ceil(threads).max(1) * BLOCK;
    let run = |part: usize, rows: &mut [T]| {
        for (block, rows) in rows.chunks_mut(BLOCK).enumerate() {
            one(part * share + block * BLOCK, rows);
        }
    };
    each(column.chunks_mut(share).enumerate(), |(part, rows)| run(part, rows));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_same_for_any_number_of_threads() {
        for rows in [0, 1, BLOCK, 9 * BLOCK + 3] {
            let alone = map(rows, 1, |rows| rows);
            assert!(alone.iter().map(ExactSizeIterator::len).sum::<usize>() == rows);
            for threads in [0, 2, 3, 64] {
                assert_eq!(map(rows, threads, |rows| rows), alone);
                let mut column = vec![0; rows];
                fill(&mut column, threads, |first, rows| {
                    rows.iter_mut().enumerate().for_each(|(at, row)| *row = first + at);
                });
                assert!(column.iter().enumerate().all(|(row, &value)| row == value));
            }
        }
    }
}
