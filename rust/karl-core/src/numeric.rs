//! Sums and moments that lose no digits: everything else in the crate adds through here.
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

    /// The state of a sum that was added up elsewhere.
    #[inline]
    pub(crate) const fn of(total: f64, lost: f64) -> Self {
        Self { total, lost }
    }

    /// Adds one term.
    #[inline]
    pub fn add(&mut self, term: f64) {
        let next = self.total + term;
        // What the addition lost sits in the smaller of its two terms.
        self.lost += if self.total.abs() >= term.abs() {
            (self.total - next) + term
        } else {
            (term - next) + self.total
        };
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

/// Count, mean and sum of squared deviations of a stream, in constant space.
///
/// ```text
/// push   d = x - mean;  mean += d / n;  m2 += d * (x - mean)              (Welford 1962)
/// merge  m2 = m2_a + m2_b + d^2 * n_a n_b / n,  d = mean_b - mean_a       (Chan, Golub and LeVeque 1983)
/// ```
///
/// Use [`mean_and_variance`] where the values can be read twice: it loses fewer digits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// How many values were seen.
    pub count: u64,
    /// Their mean; 0 when there were none.
    pub mean: f64,
    /// The sum of their squared deviations from the mean.
    pub m2: f64,
}

impl Moments {
    /// Takes one value in. Cost: one division.
    pub fn push(&mut self, value: f64) {
        self.count += 1;
        let deviation = value - self.mean;
        self.mean += deviation / self.count as f64;
        self.m2 += deviation * (value - self.mean);
    }

    /// The moments of both streams together. An empty side changes nothing.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other } else { self };
        }
        let count = self.count + other.count;
        let deviation = other.mean - self.mean;
        let share = other.count as f64 / count as f64;
        Self {
            count,
            mean: self.mean + deviation * share,
            m2: self.m2 + other.m2 + deviation * deviation * self.count as f64 * share,
        }
    }

    /// `m2 / (count - ddof)`; none where `count <= ddof`, for there it is undefined.
    #[must_use]
    pub fn variance(self, ddof: u8) -> Option<f64> {
        let freedom = self.count.checked_sub(u64::from(ddof))?;
        (freedom > 0).then(|| self.m2 / freedom as f64)
    }
}

/// Mean and variance by two compensated passes, in the order of `values`.
///
/// ```text
/// mean = sum(x) / n        variance = sum((x - mean)^2) / (n - ddof)
/// ```
///
/// None where `n <= ddof` or `n = 0`. Values beyond about 1e150 overflow the squares: the variance is then
/// infinite, which the caller has to look at. Cost: two passes.
#[must_use]
pub fn mean_and_variance(values: impl Iterator<Item = f64> + Clone, ddof: u8) -> Option<(f64, f64)> {
    let count = values.clone().count();
    let freedom = count.checked_sub(usize::from(ddof)).filter(|&freedom| freedom > 0)?;
    let mean = sum(values.clone()) / count as f64;
    let squares = sum(values.map(|value| (value - mean) * (value - mean)));
    Some((mean, squares / freedom as f64))
}
