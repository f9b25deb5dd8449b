//! Sums that lose no digits: everything else in the crate adds through here.
//!
//! All of them fold in the order given, one value at a time, so equal input in equal order gives equal bits
//! on every machine.

/// A running sum that carries its own rounding error (Neumaier's variant of Kahan's).
///
/// The error of the total is about one rounding, whatever the number of terms, as long as the terms and the
/// total are finite. Cost: seven additions a term. References: Neumaier, ZAMM 54 (1974); Knuth, The Art of Computer
/// Programming 2, 4.2.2, theorem B, for what an addition loses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compensated {
    total: f64,
    lost: f64,
}

impl Compensated {
    /// The sum of no terms.
    pub const ZERO: Self = Self { total: 0.0, lost: 0.0 };

    /// The state of a sum that was added up elsewhere.
    #[inline]
    pub(crate) const fn of(total: f64, lost: f64) -> Self {
        Self { total, lost }
    }

    /// Adds one term.
    #[inline]
    pub fn add(&mut self, term: f64) {
        let next = self.total + term;
        // What the addition lost, without asking which of its two terms is the larger: nobody could guess the answer.
        let came = next - self.total;
        self.lost += (self.total - (next - came)) + (term - came);
        self.total = next;
    }

    /// Adds all the terms of another sum.
    pub fn merge(&mut self, other: Self) {
        self.add(other.total);
        self.lost += other.lost;
    }

    /// The sum of the terms added so far; 0 when there were none.
    #[must_use]
    #[inline]
    pub fn value(self) -> f64 {
        self.total + self.lost
    }
}

/// The compensated sum of `terms` in their order; 0 for none. See [`Compensated`].
///
/// ```
/// use karl_core::numeric::sum;
/// assert_eq!(sum([1e100, 1.0, -1e100].into_iter()), 1.0);
/// ```
pub fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut total = Compensated::default();
    terms.for_each(|term| total.add(term));
    total.value()
}

/// The logistic function, `1 / (1 + exp(-x))`: 0 to 1, and 1/2 at 0.
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Key, Purpose, uniform};

    /// Neumaier's own words: what an addition lost sits in the smaller of its two terms.
    fn by_size(terms: &[f64]) -> f64 {
        let (mut total, mut lost) = (0.0_f64, 0.0);
        for &term in terms {
            let next = total + term;
            let (large, small) = if total.abs() >= term.abs() { (total, term) } else { (term, total) };
            lost += (large - next) + small;
            total = next;
        }
        total + lost
    }

    #[test]
    fn what_is_lost_is_found_without_asking_which_term_is_larger() {
        for start in 0..200 {
            let number = |at: usize| uniform(5, Key::of_index(1000 * start + at), Purpose::Draw) - 0.5;
            // Terms of all sizes, some of which nearly cancel those before.
            #[allow(clippy::cast_possible_truncation, reason = "from -100 to 100")]
            let term = |at: usize| number(at) * f64::exp2((200.0 * number(at + 500)).trunc());
            let mut terms: Vec<f64> = (0..100).map(term).collect();
            terms.extend((0..100).map(|at| -term(at) * (1.0 + 1e-15)));
            assert_eq!(sum(terms.iter().copied()).to_bits(), by_size(&terms).to_bits(), "{start}");
        }
    }
}
