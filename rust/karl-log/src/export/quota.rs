//! Draw without replacement, one row after another, that skips rows over their limits.

use karl_core::sample::{Ranked, Ranking};
use rustc_hash::FxHashMap;

/// Budget of rows of each stratum.
#[derive(Clone, Debug)]
pub struct Strata<'a> {
    /// Stratum of each row; a row with a code without a budget is in the last. `[B]`
    pub codes: &'a [u32],
    /// One budget per code, and one for the rows without a code.
    pub budgets: Vec<u64>,
}

impl Strata<'_> {
    /// Return the index of a row's budget.
    #[must_use]
    pub fn of(&self, row: u32) -> usize {
        let last = self.budgets.len().saturating_sub(1);
        self.codes.get(row as usize).map_or(last, |&code| (code as usize).min(last))
    }
}

/// Limits of a draw.
pub(super) struct Limits<'a> {
    /// Group of each row.
    pub(super) groups: &'a [u32],
    /// Maximum rows of one group.
    pub(super) most: Option<usize>,
    /// Budgets of the strata.
    pub(super) strata: Option<Strata<'a>>,
}

/// Rows drawn from each group and stratum so far; its size grows with the drawn rows, not with the log.
#[derive(Default)]
struct Drawn {
    groups: FxHashMap<u32, usize>,
    strata: FxHashMap<usize, u64>,
}

/// Outcome of a row.
enum Admission {
    Drawn,
    OverCap,
    OverBudget,
}

impl Drawn {
    fn admit(&mut self, row: u32, limits: &Limits<'_>) -> Admission {
        let stratum = limits.strata.as_ref().map(|strata| (strata.of(row), &strata.budgets));
        let room = |&(at, budgets): &(usize, &Vec<u64>)| {
            self.strata.get(&at).copied().unwrap_or(0) < budgets.get(at).copied().unwrap_or(0)
        };
        if !stratum.as_ref().is_none_or(room) {
            return Admission::OverBudget;
        }
        let group = limits.groups.get(row as usize).filter(|&&code| code != crate::intern::NONE);
        if let (Some(most), Some(&group)) = (limits.most, group) {
            let had = self.groups.entry(group).or_default();
            if *had >= most {
                return Admission::OverCap;
            }
            *had += 1;
        }
        if let Some((at, _)) = stratum {
            *self.strata.entry(at).or_default() += 1;
        }
        Admission::Drawn
    }
}

/// State of a walk along a ranking.
#[derive(Default)]
pub(super) struct QuotaWalk {
    /// Drawn rows, in the order of the draw.
    pub(super) rows: Vec<u32>,
    /// Rows that would be drawn next.
    pub(super) spare: Vec<u32>,
    /// Rows that failed before the last drawn one.
    pub(super) flawed: Vec<u32>,
    /// Rows skipped before it because their group was full.
    pub(super) over_cap: u64,
    /// Key of the next row.
    pub(super) threshold: Option<f64>,
}

/// Walk until `count` rows and `spare` more are drawn, or none is left.
pub(super) fn walk(
    ranking: &mut Ranking<'_>,
    count: usize,
    spare: usize,
    limits: &Limits<'_>,
    failed: impl Fn(u32) -> bool,
) -> QuotaWalk {
    let (mut walked, mut had) = (QuotaWalk::default(), Drawn::default());
    let mut at = 0;
    let mut reach = count.saturating_add(spare).saturating_add(1);
    loop {
        let met = ranking.reach(reach);
        for &Ranked { key, row } in &met[at..] {
            let drawing = walked.rows.len() < count;
            if !drawing && limits.strata.is_some() {
                // All budgets are spent: no row of any stratum could follow.
                return walked;
            }
            if failed(row) {
                walked.flawed.extend(drawing.then_some(row));
                continue;
            }
            match had.admit(row, limits) {
                Admission::OverCap => walked.over_cap += u64::from(drawing),
                Admission::OverBudget => {}
                Admission::Drawn if drawing => walked.rows.push(row),
                Admission::Drawn => {
                    walked.threshold.get_or_insert(key);
                    if walked.spare.len() >= spare {
                        return walked;
                    }
                    walked.spare.push(row);
                }
            }
        }
        if met.len() < reach {
            return walked;
        }
        at = met.len();
        reach = reach.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranking of rows in ascending order, with the count of those examined.
    struct Looked<'a>(&'a std::sync::atomic::AtomicUsize);

    impl karl_core::sample::Keyed for Looked<'_> {
        fn rows(&self) -> usize {
            1 << 16
        }

        fn key(&self, row: usize) -> f64 {
            -(row as f64)
        }

        fn scan(&self, block: std::ops::Range<usize>, least: f64, found: &mut Vec<Ranked>) {
            self.0.fetch_add(block.len(), std::sync::atomic::Ordering::Relaxed);
            let keys = block.map(|row| Ranked { key: -(row as f64), row: u32::try_from(row).unwrap() });
            found.extend(keys.filter(|ranked| ranked.key >= least));
        }
    }

    #[test]
    fn a_walk_ends_when_its_budgets_are_spent() {
        let looked = std::sync::atomic::AtomicUsize::new(0);
        let mut ranking = Ranking::of(Looked(&looked), 1).unwrap();
        // The first two rows of stratum 1 are at the front, and no other row may be drawn.
        let codes = vec![1; 1 << 16];
        let strata = Strata { codes: &codes, budgets: vec![0, 2, 0] };
        let limits = Limits { groups: &[], most: None, strata: Some(strata) };
        let walked = walk(&mut ranking, 2, 4, &limits, |_| false);
        assert_eq!((walked.rows, walked.spare, walked.threshold), (vec![0, 1], Vec::new(), None));
        assert_eq!(looked.load(std::sync::atomic::Ordering::Relaxed), 1 << 16, "one pass is enough");
    }
}
