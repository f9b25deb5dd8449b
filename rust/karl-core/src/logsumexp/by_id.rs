//! Log-sum-exp of groups with values in any order. Where most neighbours are of one group, runs are summed together,
//! with the same bits.
//!
//! Speed: runs of one group are summed together. Record: `benches/record/kernels.json`, "log-sum-exp of 1,250,000
//! groups of 8", ids.

use super::rows::{add_logs, below};
use super::{ROOM, anchor, larger, top};
use crate::check::{check_length, check_logs};
use crate::error::Result;
use crate::group::Groups;
use crate::numeric::exp::{Each, exp, ln_in_place};
use crate::numeric::float::Real;
use crate::numeric::simd::{Kernel, wide};
use crate::numeric::sum::Compensated;

/// `log(sum_i exp(x_i))` of each group, in the order of their codes; minus infinity for one without rows. A row without a
/// group is left out.
///
/// Shapes: values `[B]`, result `[P]`. Cost: two passes, one exponential a value; each value finds its group's state, so
/// many groups in a random order wait for memory, and each run of values where groups stand end to end. Rows need no codes,
/// and are faster yet: [`log_sum_exp_rows`](super::log_sum_exp_rows).
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
                below(&mut room[end..end + values.len()], values, anchor(tops[group]));
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
