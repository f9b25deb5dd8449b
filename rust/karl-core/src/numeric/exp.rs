//! Exponential and logarithm without a branch, so that loops over them become vector code.
//!
//! ```text
//! exp(x) = 2^n exp(r)      n = round(x / ln 2),  r = x - n ln 2 in two parts (Cody and Waite 1980)
//! exp(r) = 1 + r + r^2 / 2 + r^3 Q(r)             Q minimax on |r| <= ln 2 / 2
//! ln(x)  = n ln 2 + ln(1 + f)                     x = 2^n (1 + f),  1 + f in [sqrt(1/2), sqrt 2)
//! ln(1 + f) = f - f^2/2 + s (f^2/2 + s^2 L(s^2))  s = f / (2 + f),  L minimax
//! ```
//!
//! Each is within 1 ulp of `libm` over the whole range, subnormal results included, and has the same bits on every
//! machine and at every vector width: no multiplication is fused with an addition, and no table is read. NaN gives NaN;
//! the ends of the range give what the limits are.
//!
//! The keys of draws stay with `libm`: with other last bits a seed would draw other rows.
//!
//! Speed: exponentials of whole vectors instead of one call of `libm` each. Record: `benches/record/kernels.json`,
//! "log-sum-exp of 10,000,000 values", together with `simd`.

use crate::numeric::simd::{Kernel, wide};

/// ln 2 in two parts: products of the first with integers below 2^20 are exact.
pub(crate) const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
pub(crate) const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Adding and subtracting this rounds to an integer, which is then in the low bits of the sum.
const ROUND: f64 = 1.5 * (1_u64 << 52) as f64;

/// Of degree 8, with an error of 2^-57 in `r^3 Q`. By Remez's algorithm in 60 digits, then rounded.
const Q: [f64; 9] = [
    0.166_666_666_666_666_85,
    0.041_666_666_666_602_89,
    0.008_333_333_333_314_001,
    0.001_388_888_892_722_395_6,
    0.000_198_412_699_047_352_7,
    2.480_150_815_428_782_2e-5,
    2.755_722_624_251_93e-6,
    2.762_539_253_334_342_5e-7,
    2.511_504_264_277_562_4e-8,
];

/// `e^x`. Cost: about thirty operations, none of them a division.
///
/// ```
/// use karl_core::numeric::exp::exp;
/// assert_eq!((exp(0.0), exp(f64::NEG_INFINITY), exp(710.0)), (1.0, 0.0, f64::INFINITY));
/// ```
#[inline(always)]
#[must_use]
pub fn exp(x: f64) -> f64 {
    exp_parts(x).0
}

/// Return `e^x`, `e^r - 1 - r`, and whether r is x itself: the power of 2 is 1.
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64, bool) {
    // Beyond these the result is infinite, or rounds to zero.
    let x = x.clamp(-746.0, 710.0);
    let rounded = x * std::f64::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let (high, low) = (x - n * LN2_HIGH, n * LN2_LOW);
    let r = high - low;
    let rest = less_line(r);
    let significand = 1.0 + (high + (rest - low));
    // Two factors, so that each is a normal number where the result is not.
    let power = rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(2 * 1023);
    let half = power >> 1;
    let exp = significand * f64::from_bits(half << 52) * f64::from_bits(power.wrapping_sub(half) << 52);
    (exp, rest, n == 0.0)
}

/// `e^x` for the log of a weight beside one that is about the largest: within 1 ulp from 709 down to -708, and 0 below,
/// where it adds nothing to the largest. NaN gives NaN, and what is above 709 anything. Cost: a sixth less than [`exp`].
#[inline(always)]
#[must_use]
pub fn exp_below(x: f64) -> f64 {
    let rounded = x * std::f64::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let significand = 1.0 + (r + less_line(r));
    let power = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    if x < -708.0 { 0.0 } else { significand * power }
}

/// `e^r - 1 - r` for small r: `r^2 / 2 + r^3 Q(r)`.
#[inline(always)]
fn less_line(r: f64) -> f64 {
    let r2 = r * r;
    let even = Q[0] + r2 * (Q[2] + r2 * (Q[4] + r2 * (Q[6] + r2 * Q[8])));
    let odd = Q[1] + r2 * (Q[3] + r2 * (Q[5] + r2 * Q[7]));
    r2 * (0.5 + r * (even + r * odd))
}

/// `e^x - 1 - x`, the distance of the exponential from its tangent at 0, which keeps its digits near 0: it is never
/// negative, and zero at 0 alone.
///
/// ```
/// use karl_core::numeric::exp::exp_less_line;
/// assert!((exp_less_line(1e-9) - 5e-19).abs() < 1e-27);
/// ```
#[inline(always)]
#[must_use]
pub fn exp_less_line(x: f64) -> f64 {
    exp_and_less_line(x).1
}

/// [`exp`] and [`exp_less_line`] of the same number, for little more than the first.
#[inline(always)]
#[must_use]
pub fn exp_and_less_line(x: f64) -> (f64, f64) {
    let (exp, rest, near) = exp_parts(x);
    (exp, if near { rest } else { exp - 1.0 - x })
}

/// Of degree 4, with an error of 2^-33.
const Q_F32: [f32; 5] = [0.166_666_67, 0.041_666_46, 0.008_333_275, 0.001_393_539_5, 0.000_199_131_86];

/// As [`ROUND`], for f32.
const ROUND_F32: f32 = 1.5 * (1_u32 << 23) as f32;

/// ln 2 in two parts, of which the first has nine bits.
const LN2_HIGH_F32: f32 = 0.693_359_4; // 0.693359375, to the bit
const LN2_LOW_F32: f32 = -2.121_944_4e-4;

/// `e^x` in f32: half the memory, twice the lanes.
#[inline(always)]
#[must_use]
pub fn exp_f32(x: f32) -> f32 {
    exp_parts_f32(x).0
}

/// [`exp_and_less_line`] in f32.
#[inline(always)]
#[must_use]
pub fn exp_and_less_line_f32(x: f32) -> (f32, f32) {
    let (exp, rest, near) = exp_parts_f32(x);
    (exp, if near { rest } else { exp - 1.0 - x })
}

/// As [`exp_parts`], for f32.
#[inline(always)]
fn exp_parts_f32(x: f32) -> (f32, f32, bool) {
    let x = x.clamp(-104.0, 89.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUND_F32;
    let n = rounded - ROUND_F32;
    let (high, low) = (x - n * LN2_HIGH_F32, n * LN2_LOW_F32);
    let r = high - low;
    let r2 = r * r;
    let q = Q_F32[0] + r * (Q_F32[1] + r * (Q_F32[2] + r * (Q_F32[3] + r * Q_F32[4])));
    let rest = r2 * (0.5 + r * q);
    let significand = 1.0 + (high + (rest - low));
    let power = rounded.to_bits().wrapping_sub(ROUND_F32.to_bits()).wrapping_add(2 * 127);
    let half = power >> 1;
    let exp = significand * f32::from_bits(half << 23) * f32::from_bits(power.wrapping_sub(half) << 23);
    (exp, rest, n == 0.0)
}

/// Of degree 6, with an error of 2^-61 in `s^3 L`. By Remez's algorithm in 60 digits, then rounded.
const L: [f64; 7] = [
    0.666_666_666_666_681,
    0.399_999_999_990_145_9,
    0.285_714_288_184_303_67,
    0.222_221_916_516_581_74,
    0.181_838_910_056_672_16,
    0.153_063_364_651_182_25,
    0.148_680_296_059_907_35,
];

/// The bits of the square root of 1/2, and of 1.
const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const ONE: u64 = 0x3ff0_0000_0000_0000;

/// Return the natural logarithm; minus infinity at zero, NaN below. Cost: about thirty operations, one of them a
/// division.
///
/// ```
/// use karl_core::numeric::exp::ln;
/// assert_eq!((ln(1.0), ln(0.0), ln(f64::INFINITY)), (0.0, f64::NEG_INFINITY, f64::INFINITY));
/// ```
#[inline(always)]
#[must_use]
pub fn ln(x: f64) -> f64 {
    let tiny = x < f64::MIN_POSITIVE;
    let normal = if tiny { x * (1_u64 << 54) as f64 } else { x };
    let bits = normal.to_bits().wrapping_add(ONE - SQRT_HALF);
    let significand = f64::from_bits((bits & ((1 << 52) - 1)) + SQRT_HALF);
    // An integer below 2^52 as a float: it is put into the bits of 2^52.
    let power = f64::from_bits((bits >> 52) | ((1023 + 52) << 52)) - (1_u64 << 52) as f64;
    let log = ln_of(significand - 1.0, power - if tiny { 1023.0 + 54.0 } else { 1023.0 });
    let log = if x < f64::INFINITY { log } else { x };
    if x > 0.0 { log } else { at_or_below_zero(x) }
}

/// `ln(2^n (1 + f))`.
#[inline(always)]
fn ln_of(f: f64, n: f64) -> f64 {
    let s = f / (2.0 + f);
    let (z, half) = (s * s, 0.5 * f * f);
    let z2 = z * z;
    let even = L[0] + z2 * (L[2] + z2 * (L[4] + z2 * L[6]));
    let odd = L[1] + z2 * (L[3] + z2 * L[5]);
    n * LN2_HIGH - ((half - (s * (half + z * (even + z * odd)) + n * LN2_LOW)) - f)
}

#[inline(always)]
fn at_or_below_zero(x: f64) -> f64 {
    if x == 0.0 { f64::NEG_INFINITY } else { f64::NAN }
}

/// [`ln`] of each value, at full vector width.
pub fn ln_in_place(values: &mut [f64]) {
    wide(Each(values, ln));
}

/// A function of each value, put in its place.
pub(crate) struct Each<'a, T, F>(pub(crate) &'a mut [T], pub(crate) F);

impl<T: Copy, F: Fn(T) -> T> Kernel for Each<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for value in self.0 {
            *value = (self.1)(*value);
        }
    }
}
