//! Log-sum-exp of each row of a ragged column. Rows are short as a rule, a group of eight rollouts, so that a loop a row
//! would leave most of a vector idle: rows are put side by side in a buffer, and its exponentials are taken together.
//!
//! Speed: short rows are summed side by side. Record: `benches/record/kernels.json`, "log-sum-exp of 1,250,000 groups
//! of 8", offsets.

use std::ops::Range;

use super::{PowerSums, ROOM, ValueBlock, anchor, top};
use crate::check::{check_length, check_logs};
use crate::error::Result;
use crate::group::offsets::Offsets;
use crate::numeric::exp::{Each, exp_below, ln};
use crate::numeric::float::Real;
use crate::numeric::parallel::{self, BLOCK};
use crate::numeric::simd::{self, Kernel, wide};

/// `log(sum_i exp(x_i))` of each row; minus infinity for an empty one.
///
/// Shapes: values `[offsets.values()]`, result `[offsets.len()]`. Cost: one pass, one exponential a value, a logarithm a row.
/// The bits of a row do not depend on the rows beside it.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where the offsets are of other values;
/// [`Error::NotFinite`](crate::Error::NotFinite) for a NaN or plus infinity.
pub fn log_sum_exp_rows<T: Real>(values: &[T], offsets: &Offsets<'_>, threads: usize) -> Result<Vec<f64>> {
    check_length("values", values.len(), offsets.values())?;
    let mut logs = vec![0.0; offsets.len()];
    parallel::fill(&mut logs, threads, |first, logs| wide(Batches { values, offsets, first, logs }));
    if logs.iter().any(|log| log.is_nan()) {
        check_logs("log_sum_exp value", values)?;
    }
    Ok(logs)
}

/// Rows side by side.
struct RowBatch {
    exponents: [f64; ROOM],
    sums: [f64; ROOM],
}

/// The rows from `first` on, and their logarithms to fill in.
struct Batches<'a, T> {
    values: &'a [T],
    offsets: &'a Offsets<'a>,
    first: usize,
    logs: &'a mut [f64],
}

impl<T: Real> Kernel for Batches<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut batch = RowBatch { exponents: [0.0; ROOM], sums: [0.0; ROOM] };
        let Batches { values: all, offsets, first: mut row, mut logs } = self;
        while !logs.is_empty() {
            let Fit { values, rows } = Fit::of(offsets, row, logs.len());
            let (now, later) = logs.split_at_mut(rows);
            if values.len() > ROOM {
                now[0] = of_long(&all[values]);
            } else {
                batch.fill(&all[values], offsets, row, now);
            }
            (row, logs) = (row + rows, later);
        }
    }
}

/// Rows that are taken together: as many as there is room for, and one in any case.
struct Fit {
    /// Range of their values.
    values: Range<usize>,
    rows: usize,
}

impl Fit {
    #[inline(always)]
    fn of(offsets: &Offsets<'_>, first: usize, most: usize) -> Self {
        let begin = offsets.row(first).start;
        let mut fit = Self { values: begin..begin, rows: 0 };
        while fit.rows < most.min(ROOM) {
            let row = offsets.row(first + fit.rows);
            if fit.rows > 0 && row.end - begin > ROOM {
                break;
            }
            (fit.rows, fit.values.end) = (fit.rows + 1, row.end);
        }
        fit
    }
}

impl RowBatch {
    /// Fill in the logarithms of rows of any length, from `first` on, with these values.
    #[inline(always)]
    fn fill<T: Real>(&mut self, values: &[T], offsets: &Offsets<'_>, first: usize, logs: &mut [f64]) {
        let begin = offsets.row(first).start;
        let place = |row: usize| {
            let values = offsets.row(first + row);
            values.start - begin..values.end - begin
        };
        for (row, log) in logs.iter_mut().enumerate() {
            let row = place(row);
            *log = top(&values[row.clone()]);
            below(&mut self.exponents[row.clone()], &values[row], anchor(*log));
        }
        Each(&mut self.exponents[..values.len()], exp_below).run();
        for (row, sum) in self.sums[..logs.len()].iter_mut().enumerate() {
            *sum = simd::sum(&self.exponents[place(row)]);
        }
        add_logs(logs, &mut self.sums);
    }
}

/// Values less the anchor of their row.
#[inline(always)]
pub(super) fn below<T: Real>(exponents: &mut [f64], values: &[T], from: f64) {
    for place in 0..values.len() {
        exponents[place] = values[place].widen() - from;
    }
}

/// Add the logarithms of sums to their references.
#[inline(always)]
pub(super) fn add_logs(tops: &mut [f64], sums: &mut [f64]) {
    let sums = &mut sums[..tops.len()];
    Each(&mut *sums, ln).run();
    for place in 0..tops.len() {
        tops[place] += sums[place];
    }
}

/// Return the logarithm of a row that is longer than the buffer, by blocks.
fn of_long<T: Real>(values: &[T]) -> f64 {
    let parts: Vec<PowerSums<1>> = values.chunks(BLOCK).map(|block| wide(ValueBlock(block))).collect();
    let PowerSums { top, powers: [sum] } = super::joined(&parts);
    top + ln(sum)
}
