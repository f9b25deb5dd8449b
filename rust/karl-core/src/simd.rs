//! Loops at the full vector width of the machine, with the same bits on every one.
//!
//! A loop over [`LANES`] independent lanes is compiled for each instruction set and the widest that runs here is taken.
//! Nothing is contracted to a fused multiply-add, and lanes and their order are part of each formula: a machine with
//! narrow vectors takes more steps to the same numbers.

#![allow(clippy::inline_always, reason = "a call within a loop would keep it from becoming vector code")]

/// Numbers that a kernel holds side by side: one register of 512 bits, or several that are narrower.
pub const LANES: usize = 8;

/// Runs `work`, whose loops are inlined, with the widest vectors of this machine.
pub fn wide<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// The sum of the lanes, halved three times: the one order in which lanes are added.
#[inline(always)]
#[must_use]
pub fn fold(lanes: [f64; LANES]) -> f64 {
    let four: [f64; LANES / 2] = std::array::from_fn(|lane| lanes[lane] + lanes[lane + LANES / 2]);
    (four[0] + four[2]) + (four[1] + four[3])
}
