//! Numerics under every kernel: number types, sums, exponentials, vector loops, threads, bucketing.

pub mod exact;
pub mod exp;
pub mod float;
pub mod parallel;
pub(crate) mod radix;
pub mod simd;
pub mod sum;
