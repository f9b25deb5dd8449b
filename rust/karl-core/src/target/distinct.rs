//! The distinct scores of a log, where they are few: then a sum over rows costs a handful of `exp`.
//!
//! The sums are exact ([`Share`](crate::numeric::exact::Share)), so counting equal terms and multiplying gives the bits of adding
//! each: levels change the cost of a search over temperatures, and nothing else.
//!
//! Speed: one exponential a distinct score in a search over temperatures. No record isolates it;
//! `benches/record/instructions.json`, `core::boltzmann_by_ess`, includes it.

use super::Rows;

/// More distinct scores than this are not counted.
const MOST: usize = 1024;

/// Slots of the table, a power of two, so that it stays half empty.
const SLOTS: usize = 4 * MOST;

/// Each distinct score less `top`, with its rows; none where there are more than a thousand.
///
/// Cost: one look-up a row, up to the row that shows there are too many.
pub(super) fn levels(rows: Rows<'_>, top: f64) -> Option<Vec<(f64, u32)>> {
    let mut table: Vec<(f64, u32)> = vec![(0.0, 0); SLOTS];
    let mut filled = 0;
    for score in (0..rows.len()).map(|row| rows.score(row)).filter(|score| !score.is_nan()) {
        let below = score - top;
        let mut slot = slot(below);
        while table[slot].1 > 0 && table[slot].0.to_bits() != below.to_bits() {
            slot = (slot + 1) % SLOTS;
        }
        filled += usize::from(table[slot].1 == 0);
        if filled > MOST {
            return None;
        }
        table[slot] = (below, table[slot].1 + 1);
    }
    table.retain(|&(_, count)| count > 0);
    Some(table)
}

/// The multiplier is 2^64 over the golden ratio: it spreads neighbouring bit patterns over the table.
fn slot(below: f64) -> usize {
    let mixed = below.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize % SLOTS
}
