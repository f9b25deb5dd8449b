//! The statistics the distribution tests decide by: chi-square with its exact tail, and the normal deviation.

/// Pearson's statistic of counts against expected counts, and the probability of one as large or larger.
///
/// `free` is the number of degrees of freedom: cells less the constraints on them.
pub(crate) fn chi_square(observed: &[f64], expected: &[f64], free: f64) -> f64 {
    let statistic: f64 = observed.iter().zip(expected).map(|(o, e)| (o - e).powi(2) / e).sum();
    upper_gamma(free / 2.0, statistic / 2.0)
}

/// As [`chi_square`] for the cells of one law, with small cells pooled: a cell should expect 5 or more.
pub(crate) fn fit(observed: &[f64], probabilities: &[f64]) -> f64 {
    let draws: f64 = observed.iter().sum();
    let (mut counts, mut expected) = (vec![0.0], vec![0.0]);
    for (&count, &probability) in observed.iter().zip(probabilities) {
        if *expected.last().unwrap() >= 5.0 {
            counts.push(0.0);
            expected.push(0.0);
        }
        *counts.last_mut().unwrap() += count;
        *expected.last_mut().unwrap() += draws * probability;
    }
    if *expected.last().unwrap() < 5.0 && expected.len() > 1 {
        let (count, rest) = (counts.pop().unwrap(), expected.pop().unwrap());
        *counts.last_mut().unwrap() += count;
        *expected.last_mut().unwrap() += rest;
    }
    assert!(expected.len() > 1, "one cell tests nothing");
    chi_square(&counts, &expected, expected.len() as f64 - 1.0)
}

/// The tail probability of `values` in (0, 1) being uniform, by their counts in `bins` equal bins.
pub(crate) fn uniformity(values: impl Iterator<Item = f64>, bins: usize) -> f64 {
    let mut counts = vec![0.0; bins];
    for value in values {
        counts[cell(value, bins)] += 1.0;
    }
    fit(&counts, &vec![1.0 / bins as f64; bins])
}

/// The tail probability of pairs being uniform on the square: what catches numbers that follow each other.
pub(crate) fn pairs(values: impl Iterator<Item = (f64, f64)>, bins: usize) -> f64 {
    let mut counts = vec![0.0; bins * bins];
    for (x, y) in values {
        counts[cell(x, bins) * bins + cell(y, bins)] += 1.0;
    }
    fit(&counts, &vec![1.0 / (bins * bins) as f64; bins * bins])
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a value in (0, 1) times the bins"
)]
fn cell(value: f64, bins: usize) -> usize {
    ((value * bins as f64) as usize).min(bins - 1)
}

/// How many standard deviations a count of successes is from its expectation.
pub(crate) fn deviation(successes: f64, draws: f64, probability: f64) -> f64 {
    (successes - draws * probability) / (draws * probability * (1.0 - probability)).sqrt()
}

/// The upper regularised incomplete gamma function Q(a, x), by its series or its continued fraction.
pub(crate) fn upper_gamma(a: f64, x: f64) -> f64 {
    let scale = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    if x <= 0.0 {
        1.0
    } else if x < a + 1.0 {
        1.0 - scale * series(a, x)
    } else {
        scale * fraction(a, x)
    }
}

/// `sum_n x^n / (a (a + 1) ... (a + n))`.
fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut total, mut n) = (1.0 / a, 1.0 / a, a);
    while term > total * 1e-16 {
        n += 1.0;
        term *= x / n;
        total += term;
    }
    total
}

/// `1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...))`, by Lentz's method.
fn fraction(a: f64, x: f64) -> f64 {
    let mut partial = x + 1.0 - a;
    let (mut above, mut below) = (1e300, 1.0 / partial);
    let mut value = below;
    for n in 1..10_000 {
        let numerator = -f64::from(n) * (f64::from(n) - a);
        partial += 2.0;
        below = 1.0 / (numerator * below + partial);
        above = partial + numerator / above;
        value *= below * above;
        if (below * above - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}
