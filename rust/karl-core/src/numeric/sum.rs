//! Sums that lose no digits: everything else in the crate adds through here.
//!
//! All of them fold in the order given, one value at a time, so equal input in equal order gives equal bits
//! on every machine.

/// A running sum that carries its own rounding error (Neumaier's variant of Kahan's).
///
/// The error of the total is about one rounding, whatever the number of terms, as long as the terms and the
/// total are finite. Cost: four additions a term. Reference: Neumaier, ZAMM 54 (1974).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compensated {
    total: f64,
    lost: f64,
}

impl Compensated {
    /// The sum of no terms.
    pub const ZERO: Self = Self { total: 0.0, lost: 0.0 };

    /// Return the state of a sum that was added up elsewhere.
    #[inline]
    pub(crate) const fn of(total: f64, lost: f64) -> Self {
        Self { total, lost }
    }

    /// Add one term.
    #[inline]
    pub fn add(&mut self, term: f64) {
        let next = self.total + term;
        // What the addition lost sits in the smaller of its two terms. A choice between numbers and not between ways: which
        // it is can be guessed by nobody.
        let larger = self.total.abs() >= term.abs();
        let (large, small) = if larger { (self.total, term) } else { (term, self.total) };
        self.lost += (large - next) + small;
        self.total = next;
    }

    /// Add all the terms of another sum.
    pub fn merge(&mut self, other: Self) {
        self.add(other.total);
        self.lost += other.lost;
    }

    /// Return the sum of the terms added so far; 0 when there were none.
    #[must_use]
    #[inline]
    pub fn value(self) -> f64 {
        self.total + self.lost
    }
}

/// Return the compensated sum of `terms` in their order; 0 for none. See [`Compensated`].
///
/// ```
/// use karl_core::numeric::sum::sum;
/// assert_eq!(sum([1e100, 1.0, -1e100].into_iter()), 1.0);
/// ```
pub fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut total = Compensated::default();
    terms.for_each(|term| total.add(term));
    total.value()
}

/// Return the logistic function, `1 / (1 + exp(-x))`: 0 to 1, and 1/2 at 0.
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}
