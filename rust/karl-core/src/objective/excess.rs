//! `e^x - 1 - x`, which is what the estimator k3 of a divergence is, and `e^x - 1`.

use super::lane::Lane;

/// Below this size of x the series is taken: beyond it the difference keeps all digits that matter.
const NEAR: f64 = 0.25;

/// `1 / k!` for k = 13 down to 2: at [`NEAR`] the first term left out is below the last bit of an f64.
const SERIES: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
];

/// Return `e^x - 1 - x` from x and `e^x`, without the cancellation that the difference has near 0.
#[inline(always)]
pub(super) fn excess<T: Lane>(x: T, exp_x: T) -> T {
    let mut series = T::default();
    for factor in SERIES {
        series = series * x + T::narrow(factor);
    }
    let near = (x < T::narrow(NEAR)) & (x > T::narrow(-NEAR));
    if near { series * x * x } else { exp_x - T::ONE - x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_has_the_digits_of_expm1() {
        for step in -4000..4000_i32 {
            let x = f64::from(step) / 1000.0 + 1e-7;
            // expm1 has lost nothing where x is small, but for what cancels with x: compare with a third of the bits.
            let wanted =
                if x.abs() < 1e-2 { x * x / 2.0 * (1.0 + x / 3.0 + x * x / 12.0) } else { x.exp_m1() - x };
            let tolerance = if x.abs() < 1e-2 { 1e-7 } else { 1e-12 };
            let found = excess(x, libm::exp(x));
            assert!((found - wanted).abs() <= tolerance * wanted, "{x}: {found} {wanted}");
        }
    }
}
