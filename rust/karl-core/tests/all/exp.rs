//! The exponential and the logarithm against `libm`, and against themselves in loops.

use karl_core::numeric::exp::{exp, exp_below, exp_f32, exp_less_line, ln, ln_in_place};

/// How many representable numbers apart from `libm` any result may be.
const APART: u64 = 1;

const ENDS: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    -5e-324,
    709.782_712_893_384,
    709.782_712_893_384_1,
    -745.133_219_101_941_1,
    -745.133_219_101_941_2,
    -708.396_418_532_264_1,
];

/// Numbers that repeat nothing: a multiplicative walk over all bits.
fn walk(count: u64) -> impl Iterator<Item = u64> {
    (1..=count).map(|k| (k ^ k << 31).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn apart(a: f64, b: f64) -> u64 {
    if a.is_nan() && b.is_nan() { 0 } else { a.to_bits().abs_diff(b.to_bits()) }
}

fn exponents() -> impl Iterator<Item = f64> {
    let dense = (-750_000..711_000).map(|k| f64::from(k) * 1e-3 + f64::from(k) * 1e-11);
    let near = walk(500_000).map(|bits| (bits >> 11) as f64 * 2f64.powi(-53) - 0.5);
    let any = walk(2_000_000).map(f64::from_bits);
    dense.chain(near).chain(any).chain(ENDS)
}

fn numbers() -> impl Iterator<Item = f64> {
    let near = walk(2_000_000).map(|bits| 0.5 + (bits >> 11) as f64 * 2f64.powi(-52));
    let sums = (1..2_000_000).map(|k| 1.0 + f64::from(k) * 1.37e-3);
    let subnormal = walk(200_000).map(|bits| f64::from_bits(bits >> 12));
    let any = walk(2_000_000).map(f64::from_bits);
    near.chain(sums).chain(subnormal).chain(any).chain(ENDS)
}

fn furthest(inputs: impl Iterator<Item = f64>, one: fn(f64) -> f64, other: fn(f64) -> f64) -> (u64, f64) {
    inputs.map(|x| (apart(one(x), other(x)), x)).fold((0, 0.0), |a, b| if b.0 > a.0 { b } else { a })
}

#[test]
fn exp_is_within_one_ulp_of_libm() {
    let (most, at) = furthest(exponents(), exp, libm::exp);
    assert!(most <= APART, "{most} apart at {at}");
}

#[test]
fn exp_below_is_exp_down_to_where_nothing_is_added() {
    let weights = exponents().filter(|&x| (-708.0..=709.0).contains(&x));
    let (most, at) = furthest(weights, exp_below, libm::exp);
    assert!(most <= APART, "{most} apart at {at}");
    let low = [-708.0, (-708.0_f64).next_down(), -1e300, f64::NEG_INFINITY];
    assert_eq!(low.map(|x| exp_below(x) > 0.0), [true, false, false, false]);
    assert!(exp_below(f64::NAN).is_nan());
}

#[test]
fn ln_is_within_one_ulp_of_libm() {
    let (most, at) = furthest(numbers(), ln, libm::log);
    assert!(most <= APART, "{most} apart at {at}");
}

/// Of `libm`'s f64 the rounding to f32 is correct but for one in 2^29.
#[test]
fn exp_f32_is_within_one_ulp_of_the_rounded_exp() {
    for bits in (0..=u32::MAX).step_by(997) {
        let x = f32::from_bits(bits);
        #[allow(clippy::cast_possible_truncation, reason = "rounding to the nearest is what is asked for")]
        let (found, wanted) = (exp_f32(x), libm::exp(f64::from(x)) as f32);
        let same = found.is_nan() && wanted.is_nan();
        assert!(same || found.to_bits().abs_diff(wanted.to_bits()) <= 1, "{x}: {found} for {wanted}");
    }
}

#[test]
fn a_missing_number_stays_missing() {
    assert!(exp(f64::NAN).is_nan() && ln(f64::NAN).is_nan() && exp_f32(f32::NAN).is_nan());
    assert!(ln(-1.0).is_nan() && ln(f64::NEG_INFINITY).is_nan());
    assert!(ln(-0.0).to_bits() == f64::NEG_INFINITY.to_bits());
}

/// Half of ln 2 is where the polynomial ends. `expm1(x) - x` of `libm` has 2^-49 here, and the other form about as much.
#[test]
fn exp_less_line_keeps_its_digits_on_both_sides_of_half_of_ln_2() {
    for x in (200..1_000).flat_map(|k| [f64::from(k) * 1e-3, f64::from(k) * -1e-3]) {
        let (found, wanted) = (exp_less_line(x), libm::expm1(x) - x);
        assert!((found / wanted - 1.0).abs() < 2e-14, "{x}: {found} for {wanted}");
    }
}

/// Vectors of every width, and the lanes that are left over, give what a single call gives.
#[test]
fn loops_have_the_bits_of_single_calls() {
    let inputs: Vec<f64> = exponents().step_by(7).collect();
    for length in (0..70).chain([inputs.len()]) {
        let mut found = inputs[..length].to_vec();
        ln_in_place(&mut found);
        assert!(found.iter().zip(&inputs).all(|(&found, &x)| apart(found, ln(x)) == 0));
    }
}

/// Pinned: the same bits on every machine, of an equal fold over results from the whole range.
#[test]
fn bits_are_pinned() {
    let hash = |bits: u64, x: f64| (bits ^ x.to_bits()).wrapping_mul(0x0100_0000_01b3);
    let inputs = || (-7_460..7_100).map(|k| f64::from(k) * 0.1 + 0.037);
    let of =
        |one: fn(f64) -> f64| inputs().map(one).filter(|x| !x.is_nan()).fold(0xcbf2_9ce4_8422_2325, hash);
    assert_eq!((of(exp), of(ln)), (8_965_300_645_946_830_067, 8_424_859_040_440_135_799));
}
