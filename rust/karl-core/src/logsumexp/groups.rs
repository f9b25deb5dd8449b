//! Log-sum-exp of each group of values: end to end, as the rows of a ragged column, or in any order, by a code a row.
//!
//! Groups are short as a rule, eight rollouts, so that a loop a group would leave most of a vector idle. End to end, rows are
//! put side by side in a buffer, and its exponentials are taken together. By codes, where most neighbours are of one group,
//! runs are summed together, with the same bits.
//!
//! Speed: short rows are summed side by side, and runs of one group together. Record: `benches/record/kernels.json`,
//! "log-sum-exp of 1,250,000 groups of 8", offsets and ids.

use std::ops::Range;

use super::{PowerSums, ROOM, ValueBlock, anchor, larger, top};
use crate::check::{check_length, check_logs};
use crate::error::Result;
use crate::group::Groups;
use crate::group::offsets::Offsets;
use crate::numeric::Real;
use crate::numeric::exp::{Each, exp, exp_below, ln, ln_in_place};
use crate::numeric::parallel::{self, BLOCK};
use crate::numeric::simd::{self, Kernel, wide};
use crate::numeric::sum::Compensated;

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
                now[0] = log_of_long_row(&all[values]);
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
            subtract_anchor(&mut self.exponents[row.clone()], &values[row], anchor(*log));
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
fn subtract_anchor<T: Real>(exponents: &mut [f64], values: &[T], from: f64) {
    for place in 0..values.len() {
        exponents[place] = values[place].widen() - from;
    }
}

/// Add the logarithms of sums to their references.
#[inline(always)]
fn add_logs(tops: &mut [f64], sums: &mut [f64]) {
    let sums = &mut sums[..tops.len()];
    Each(&mut *sums, ln).run();
    for place in 0..tops.len() {
        tops[place] += sums[place];
    }
}

/// Return the logarithm of a row that is longer than the buffer, by blocks.
fn log_of_long_row<T: Real>(values: &[T]) -> f64 {
    let parts: Vec<PowerSums<1>> = values.chunks(BLOCK).map(|block| wide(ValueBlock(block))).collect();
    let PowerSums { top, powers: [sum] } = super::join(&parts);
    top + ln(sum)
}

/// `log(sum_i exp(x_i))` of each group, in the order of their codes; minus infinity for one without rows. A row without a
/// group is left out.
///
/// Shapes: values `[B]`, result `[P]`. Cost: two passes, one exponential a value; each value finds its group's state, so
/// many groups in a random order wait for memory, and each run of values where groups stand end to end. Rows need no codes,
/// and are faster yet: [`log_sum_exp_rows`].
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where values and groups differ in rows;
/// [`Error::NotFinite`](crate::Error::NotFinite) for a NaN or plus infinity.
pub fn log_sum_exp_by<T: Real>(values: &[T], groups: &Groups<'_>, threads: usize) -> Result<Vec<f64>> {
    check_length("values", values.len(), groups.rows())?;
    check_logs("log_sum_exp value", values)?;
    Ok(if in_runs(groups.codes()) {
        by_run(values, groups, threads)
    } else {
        by_row(values, groups, threads)
    })
}

/// Return whether most rows are of the same group as the row before.
fn in_runs(codes: &[u32]) -> bool {
    let alike = codes.iter().zip(codes.iter().skip(1)).filter(|(code, next)| code == next).count();
    alike > codes.len() / 2
}

fn by_row<T: Real>(values: &[T], groups: &Groups<'_>, threads: usize) -> Vec<f64> {
    let tops = groups.fold(threads, f64::NEG_INFINITY, |top, _, row| *top = top.max(values[row].widen()));
    let sums = groups.fold(threads, Compensated::default(), |sum: &mut Compensated, group, row| {
        sum.add(exp(values[row].widen() - anchor(tops[group])));
    });
    let mut logs: Vec<f64> = sums.into_iter().map(Compensated::value).collect();
    ln_in_place(&mut logs);
    logs.iter_mut().zip(&tops).for_each(|(log, top)| *log += top);
    logs
}

fn by_run<T: Real>(values: &[T], groups: &Groups<'_>, threads: usize) -> Vec<f64> {
    let (codes, mut logs) = (groups.codes(), vec![f64::NEG_INFINITY; groups.len()]);
    groups.share(threads, &mut logs, |first, logs| wide(GroupRange { values, codes, first, logs }));
    logs
}

/// All rows, and the groups from `first` on with the logarithms to be filled in.
struct GroupRange<'a, T> {
    values: &'a [T],
    codes: &'a [u32],
    first: usize,
    logs: &'a mut [f64],
}

impl<T: Real> Kernel for GroupRange<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { values, codes, first, logs: tops } = self;
        let groups = tops.len();
        for (group, values) in runs(values, codes, first, groups) {
            tops[group] = larger(tops[group], top(values));
        }
        let (mut sums, mut room) = (vec![Compensated::default(); groups], [0.0; ROOM]);
        for (values, codes) in values.chunks(ROOM).zip(codes.chunks(ROOM)) {
            let mut end = 0;
            for (group, values) in runs(values, codes, first, groups) {
                subtract_anchor(&mut room[end..end + values.len()], values, anchor(tops[group]));
                end += values.len();
            }
            Each(&mut room[..end], exp).run();
            let mut weights = &room[..end];
            for (group, values) in runs(values, codes, first, groups) {
                let (run, rest) = weights.split_at(values.len());
                for &weight in run {
                    sums[group].add(weight);
                }
                weights = rest;
            }
        }
        let mut sums: Vec<f64> = sums.into_iter().map(Compensated::value).collect();
        add_logs(tops, &mut sums);
    }
}

/// Return the values of each run of rows of one group, and which of `count` groups from `first` on it is.
#[inline(always)]
fn runs<'a, T>(
    values: &'a [T],
    codes: &'a [u32],
    first: usize,
    count: usize,
) -> impl Iterator<Item = (usize, &'a [T])> {
    let mut end = 0;
    codes.chunk_by(|code, next| code == next).filter_map(move |run| {
        let begin = end;
        end += run.len();
        // `NONE` is past the last of every range: there are fewer groups than that.
        let group = (run[0] as usize).checked_sub(first).filter(|&group| group < count)?;
        Some((group, &values[begin..end]))
    })
}
