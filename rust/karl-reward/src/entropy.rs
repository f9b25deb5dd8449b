//! The entropy of the tools, from whole counts.

use std::sync::LazyLock;

/// The diversity of [`efficiency`](crate::efficiency()) of tools that were called so often, in all `total` times.
pub(crate) fn diversity(counts: impl ExactSizeIterator<Item = u32>, total: u32) -> f64 {
    let tools = counts.len();
    if tools < 2 {
        return 0.3;
    }
    let terms = &*TERMS;
    counts.fold(0.0, |sum, count| sum - terms.of(count, total)) / terms.bits(tools)
}

static TERMS: LazyLock<Terms> = LazyLock::new(Terms::new);

/// p log2 p for p = count / total of all trajectories of up to 64 calls, and log2 of up to 64 tools.
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

/// 0 where the count is.
fn term(count: u32, total: u32) -> f64 {
    let share = f64::from(count) / f64::from(total);
    if share > 0.0 { share * libm::log2(share) } else { 0.0 }
}
