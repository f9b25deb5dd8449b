//! The log weights of a run of rows, on whole vectors of them.
//!
//! Speed: whole vectors of log weights. Record: `benches/record/instructions.json`, `core::boltzmann_given`.

use super::fit::{Boltzmann, Normaliser};
use super::rows::Rows;
use crate::group::Scopes;
use crate::numeric::exp::{Each, exp};
use crate::numeric::parallel;
use crate::numeric::simd::{Kernel, SIDE, wide};
use crate::numeric::sum::sum;

/// The log weights of the rows from `first` on, as many as there are places.
pub(super) struct Logs<'a> {
    pub(super) target: &'a Boltzmann,
    pub(super) rows: &'a Rows<'a>,
    pub(super) first: usize,
    pub(super) out: &'a mut [f64],
}

impl Kernel for Logs<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.target.log_weights(self.rows, self.first, self.out);
    }
}

impl Boltzmann {
    /// [`log_weight`](Self::log_weight) of the rows from `first` on, as many as there are places.
    #[inline(always)]
    pub(crate) fn log_weights(&self, rows: &Rows<'_>, first: usize, out: &mut [f64]) {
        let (Scopes::Whole, Some(&Normaliser { top, log_sum })) = (rows.scopes, self.scopes.first()) else {
            return out.iter_mut().zip(first..).for_each(|(log, row)| *log = self.log_weight(rows, row));
        };
        let (b, mut scores) = (self.inverse_temperature, [0.0; SIDE]);
        for (first, out) in (first..).step_by(SIDE).zip(out.chunks_mut(SIDE)) {
            rows.side(first..first + out.len(), &mut scores);
            for (log, score) in out.iter_mut().zip(scores) {
                *log = if score.is_nan() { f64::NEG_INFINITY } else { b * (score - top) - log_sum };
            }
        }
    }

    /// Return the mean of a column over the row drawn first: `sum_i p_i x_i`, with `p_i = w_i / scopes`.
    ///
    /// A kept row without a value makes it NaN, and so do no kept rows. Blocks of rows fold in row order.
    #[must_use]
    pub fn expected(&self, rows: &Rows<'_>, values: &[f64], threads: usize) -> f64 {
        let parts = parallel::map(rows.len(), threads, |block| {
            let mut logs = vec![0.0; block.len()];
            wide(Logs { target: self, rows, first: block.start, out: &mut logs });
            let mut weights = logs.clone();
            wide(Each(&mut weights, exp));
            // A dropped row may have no value, and 0 * NaN is NaN.
            let terms = weights.iter().zip(&values[block]).zip(logs);
            let kept = terms.filter(|&(_, log)| log > f64::NEG_INFINITY);
            sum(kept.map(|((weight, value), _)| weight * value))
        });
        sum(parts.into_iter()) / self.filled as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Verdict;
    use crate::group::Groups;
    use crate::target::Temperature;

    #[test]
    fn a_run_of_rows_has_the_log_weights_of_each() {
        let codes: Vec<u32> =
            (0..300).map(|row| if row % 11 == 0 { Groups::NONE } else { row % 7 }).collect();
        let scores: Vec<f64> =
            (0..300_u32).map(|row| if row % 5 == 0 { f64::NAN } else { f64::from(row % 37) }).collect();
        let verdict = |row| if row % 13 == 0 { Verdict::Duplicate } else { Verdict::Kept };
        let verdicts: Vec<Verdict> = (0..300).map(verdict).collect();
        let groups = Groups::from_codes(codes, 7).unwrap();
        for scopes in [Scopes::Whole, Scopes::Of(&groups), Scopes::OfOrAlone(&groups)] {
            for verdicts in [&[], verdicts.as_slice(), &[Verdict::Duplicate; 300]] {
                let rows = Rows { scores: &scores, verdicts, scopes };
                let target = Boltzmann::fit(rows, Temperature::Inverse(0.3), 1).unwrap();
                for (first, count) in [(0, 300), (1, 64), (63, 200), (299, 1), (300, 0)] {
                    let mut out = vec![0.0; count];
                    wide(Logs { target: &target, rows: &rows, first, out: &mut out });
                    let each = (first..first + count).map(|row| target.log_weight(&rows, row).to_bits());
                    assert!(out.iter().map(|log| log.to_bits()).eq(each), "{scopes:?} {first}");
                }
            }
        }
    }
}
