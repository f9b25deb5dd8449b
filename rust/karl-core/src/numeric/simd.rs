//! Loops at the full vector width of the machine, with the same bits on every one.
//!
//! A loop over [`LANES`] independent lanes is compiled for each instruction set and the widest that runs here is taken.
//! Nothing is contracted to a fused multiply-add, and lanes and their order are part of each formula: a machine with
//! narrow vectors takes more steps to the same numbers.
//!
//! Speed: loops run on the widest vectors of the machine. Record: `benches/record/kernels.json`, "log-sum-exp of
//! 10,000,000 values", together with `exp`.

/// Numbers that a kernel holds side by side: one register of 512 bits, or several that are narrower.
pub const LANES: usize = 8;

/// Numbers of a long column that are summed side by side: so many that a loop over them is not unrolled before it is seen
/// to be a vector, and that no addition waits for the one before.
pub const SIDE: usize = 64;

/// A loop and what it works on.
///
/// `run` has to be marked `#[inline(always)]`, and so has every function that it calls; a closure cannot be, so that one
/// which is more than a few operations is compiled apart, for the narrowest vectors.
pub trait Kernel {
    /// Result of the loop.
    type Output;

    /// Run the loop, at the vector width of the caller.
    fn run(self) -> Self::Output;
}

impl<R, F: FnOnce() -> R> Kernel for F {
    type Output = R;

    #[inline(always)]
    fn run(self) -> R {
        self()
    }
}

/// Run a kernel with the widest vectors of this machine. Cost besides: a look at what the machine has, once found.
pub fn wide<K: Kernel>(kernel: K) -> K::Output {
    pulp::Arch::new().dispatch(Wide(kernel))
}

struct Wide<K>(K);

impl<K: Kernel> pulp::WithSimd for Wide<K> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> K::Output {
        self.0.run()
    }
}

/// Return the sum of the lanes, halved three times: the one order in which lanes are added.
#[inline(always)]
#[must_use]
pub fn fold(lanes: [f64; LANES]) -> f64 {
    let mut four = [0.0; LANES / 2];
    for lane in 0..LANES / 2 {
        four[lane] = lanes[lane] + lanes[lane + LANES / 2];
    }
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Return the sum of many lanes, a multiple of [`LANES`]: eights in their order, and those as [`fold`] does.
#[inline(always)]
#[must_use]
pub fn fold_side<const N: usize>(lanes: &[f64; N]) -> f64 {
    let mut few = [0.0; LANES];
    for lanes in lanes.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            few[lane] += lanes[lane];
        }
    }
    fold(few)
}

/// Return the sum of some numbers, each in the lane of its place.
#[inline(always)]
#[must_use]
pub fn sum(values: &[f64]) -> f64 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] += chunk[lane];
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        lanes[lane] += value;
    }
    fold(lanes)
}
