//! Arithmetic of Python: `min`, `max` and `round(x, 4)`.

/// Return Python's `max(0.0, min(1.0, x))`, which takes NaN for 1.
pub(crate) fn clip(x: f64) -> f64 {
    larger(0.0, smaller(1.0, x))
}

/// Return Python's `min`: the first unless the second is less.
pub(crate) fn smaller(first: f64, second: f64) -> f64 {
    if second < first { second } else { first }
}

/// Return Python's `max`: the first unless the second is more.
pub(crate) fn larger(first: f64, second: f64) -> f64 {
    if second > first { second } else { first }
}

/// Return the float nearest to `x` rounded to four decimals, halves to even, as if `x` were written out in full: what
/// Python's `round(x, 4)` gives. NaN and infinities stay.
///
/// ```
/// use karl_reward::round4;
///
/// assert_eq!(round4(0.12345), 0.1235); // 0.12345 is a little more than it seems
/// assert_eq!(round4(0.00005), 0.0001);
/// assert_eq!(round4(0.03125), 0.0312); // exactly half: to even
/// ```
#[must_use]
pub fn round4(x: f64) -> f64 {
    // Beyond 2^52 a float has no decimals. Formatting rounds the exact binary value, halves to even, as Python's does.
    if !x.is_finite() || x.abs() >= 4_503_599_627_370_496.0 {
        return x;
    }
    round_by_scaling(x).unwrap_or_else(|| format!("{x:.4}").parse().unwrap_or(x))
}

/// Return the commonest case: `x` is well below 2^31 and far from a half, so that one multiplication decides; the
/// whole number is exact, and its quotient by 10^4 is the nearest float.
fn round_by_scaling(x: f64) -> Option<f64> {
    // A float of this size has no decimals, and what is added to it loses its own.
    const WHOLE: f64 = 1.5 * 4_503_599_627_370_496.0;
    let scaled = x * 1e4;
    let whole = (scaled + WHOLE) - WHOLE;
    let clear = scaled.abs() < 2e9 && ((scaled - whole).abs() - 0.5).abs() > 1e-6;
    (clear && whole != 0.0).then(|| whole / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(x: f64) -> f64 {
        format!("{x:.4}").parse().unwrap()
    }

    proptest! {
        #[test]
        fn the_short_way_is_the_long_way(x in -3e5_f64..3e5, k in -2_000_000_000_i64..2_000_000_000) {
            let half = (k as f64 + 0.5) / 1e4;
            for x in [x, half, half.next_up(), half.next_down(), k as f64 / 1e4, k as f64 / 32.0] {
                prop_assert_eq!(round4(x).to_bits(), written(x).to_bits(), "{:?}", x);
            }
        }
    }

    #[test]
    fn what_has_no_decimals_stays() {
        for x in [f64::INFINITY, f64::NEG_INFINITY, 1e300, 4_503_599_627_370_496.0] {
            assert_eq!(round4(x).to_bits(), x.to_bits());
        }
        assert!(round4(f64::NAN).is_nan());
        assert_eq!(round4(-0.000_01).to_bits(), (-0.0_f64).to_bits());
    }
}
