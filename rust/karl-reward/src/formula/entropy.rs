//! The entropy of the tools, from whole counts, with its terms in a table.
//!
//! Speed: no logarithm for trajectories of up to 64 calls. No record isolates it; `benches/record/reward.json`,
//! columns, includes it.

use std::sync::LazyLock;

/// Return the entropy of tools that were called `counts` times, `total` times in all, over its maximum; none for fewer than two.
pub(crate) fn diversity(counts: impl ExactSizeIterator<Item = u32>, total: u32) -> Option<f64> {
    let tools = counts.len();
    if tools < 2 {
        return None;
    }
    let terms = &*TERMS;
    Some(counts.fold(0.0, |sum, count| sum - terms.of(count, total)) / terms.bits(tools))
}

static TERMS: LazyLock<Terms> = LazyLock::new(Terms::new);

/// The table: p log2 p for p = count / total of all trajectories of up to 64 calls, and log2 of up to 64 tools.
struct Terms {
    terms: Vec<f64>,
    bits: Vec<f64>,
}

impl Terms {
    const MOST: u32 = 64;

    fn new() -> Self {
        let sizes = (0..=Self::MOST).flat_map(|total| (0..=Self::MOST).map(move |count| (count, total)));
        let terms = sizes.map(|(count, total)| term(count, total)).collect();
        Self { terms, bits: (0..=Self::MOST).map(|tools| libm::log2(tools.into())).collect() }
    }

    fn of(&self, count: u32, total: u32) -> f64 {
        if total.max(count) > Self::MOST {
            return term(count, total);
        }
        self.terms[(total * (Self::MOST + 1) + count) as usize]
    }

    fn bits(&self, tools: usize) -> f64 {
        self.bits.get(tools).copied().unwrap_or_else(|| libm::log2(tools as f64))
    }
}

/// Return p log2 p; 0 for a count of 0.
fn term(count: u32, total: u32) -> f64 {
    let share = f64::from(count) / f64::from(total);
    if share > 0.0 { share * libm::log2(share) } else { 0.0 }
}
