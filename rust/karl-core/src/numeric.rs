//! Sums, moments and log-sum-exp that lose no digits: everything else in the crate adds through here.
//!
//! All of them fold in the order given, one value at a time, so equal input in equal order gives equal bits
//! on every machine. `exp` and `log` come from `libm`, whose results do not depend on the platform.

use crate::error::{Error, Result, check_logs};

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

/// `log(sum(exp(x)))` of a stream, in constant space and without overflow.
///
/// The state is the largest value `m` so far and `s = sum(exp(x - m))`:
///
/// ```text
/// push   x > m:  s = s * exp(m - x) + 1, m = x;    otherwise  s += exp(x - m)
/// merge  m = max(m_a, m_b),  s = s_a * exp(m_a - m) + s_b * exp(m_b - m)
/// ```
///
/// The identity is `(-inf, 0)`; a value of minus infinity (the logarithm of zero) changes nothing. NaN and
/// plus infinity belong to no partition. [`push`](Self::push) does not stop at them, so that it stays a plain
/// fold: either makes the value NaN or infinite for good. The functions of this module refuse both first.
/// Reference: Milakov and Gimelshein 2018 (arXiv:1805.02867).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogSumExp {
    /// The largest value seen.
    pub max: f64,
    /// The sum of `exp(x - max)`, between 1 and the number of values.
    pub sum: f64,
}

impl LogSumExp {
    /// The state that has seen nothing: its value is minus infinity.
    pub const EMPTY: Self = Self { max: f64::NEG_INFINITY, sum: 0.0 };

    /// Takes one value in. Cost: one `exp`.
    pub fn push(&mut self, value: f64) {
        if value > self.max {
            self.sum = self.sum * libm::exp(self.max - value) + 1.0;
            self.max = value;
        } else if value != f64::NEG_INFINITY {
            self.sum += libm::exp(value - self.max);
        }
    }

    /// The state that has seen both streams. Order does not matter, up to rounding.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let (low, high) = if self.max < other.max { (self, other) } else { (other, self) };
        if low.max == f64::NEG_INFINITY {
            return high; // exp(-inf - -inf) would be NaN
        }
        Self { max: high.max, sum: high.sum + low.sum * libm::exp(low.max - high.max) }
    }

    /// `max + log(sum)`; minus infinity when nothing was seen.
    #[must_use]
    pub fn value(self) -> f64 {
        self.max + libm::log(self.sum)
    }
}

impl Default for LogSumExp {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// `log(sum_i exp(x_i))`; minus infinity for none. Cost: one `exp` a value.
///
/// # Errors
/// [`Error::NotFinite`] for a NaN or plus infinity.
pub fn log_sum_exp(values: &[f64]) -> Result<f64> {
    check_logs("log_sum_exp value", values)?;
    Ok(fold(values, 1.0).value())
}

/// `log((1/n) * sum_i exp(x_i))`: the log of a mean, which is what a soft value needs (OAPL, A*PO).
///
/// # Errors
/// [`Error::NotFinite`] for a NaN or plus infinity; [`Error::Length`] for no values, which have no mean.
pub fn log_mean_exp(values: &[f64]) -> Result<f64> {
    if values.is_empty() {
        return Err(Error::Length { what: "log_mean_exp values", got: 0, wanted: 1 });
    }
    Ok(log_sum_exp(values)? - libm::log(values.len() as f64))
}

/// Effective sample size of weights given by their logs, in rows.
///
/// ```text
/// ess = (sum w)^2 / sum w^2 = exp(2 LSE(l) - LSE(2 l)),   l_i = log w_i
/// ```
///
/// It lies between 1 (one row has everything) and n (all weights equal), does not change when a constant is
/// added to every log weight, and is 0 where no row has any weight. Reference: Kish 1965.
///
/// # Errors
/// [`Error::NotFinite`] for a NaN or plus infinity.
pub fn ess(log_weights: &[f64]) -> Result<f64> {
    check_logs("log weight", log_weights)?;
    let total = fold(log_weights, 1.0).value();
    if total == f64::NEG_INFINITY {
        return Ok(0.0);
    }
    Ok(libm::exp(2.0 * total - fold(log_weights, 2.0).value()))
}

fn fold(values: &[f64], times: f64) -> LogSumExp {
    let mut state = LogSumExp::EMPTY;
    for value in values {
        state.push(times * value);
    }
    state
}
