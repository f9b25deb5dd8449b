//! Allocation of a budget of rows to the strata of a log.

/// The axis: what a stratum's share grows with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// All strata alike.
    Equal,
    /// With their rows.
    Proportional,
    /// With the square root of their rows: between the two.
    Sqrt,
}

impl Allocation {
    /// All allocations.
    pub const ALL: [Self; 3] = [Self::Equal, Self::Proportional, Self::Sqrt];

    /// Return the name the command line and the manifest use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Proportional => "proportional",
            Self::Sqrt => "sqrt",
        }
    }

    /// Return the allocation of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|allocation| allocation.name() == name)
    }

    fn weight(self, rows: u64) -> f64 {
        match self {
            Self::Equal => f64::from(u8::from(rows > 0)),
            Self::Proportional => rows as f64,
            Self::Sqrt => libm::sqrt(rows as f64),
        }
    }
}

/// Allocate `count` rows to strata of `rows` rows, and return the budget of each stratum.
///
/// A stratum's quota is its weight's share of the count. A stratum with a quota above its rows gets all its rows, and
/// the others share the rest by their weights, until no quota is too large. Quotas are then rounded down, and the
/// remaining rows go one each to the largest remainders, ties to the earlier stratum. With fewer rows than `count` in
/// all, every stratum gets all its rows.
///
/// ```
/// use karl_core::sample::strata::{Allocation, budgets};
/// assert_eq!(budgets(&[100, 100, 2], 11, Allocation::Equal), [5, 4, 2]);
/// assert_eq!(budgets(&[70, 20, 10], 10, Allocation::Proportional), [7, 2, 1]);
/// assert_eq!(budgets(&[100, 25, 0], 9, Allocation::Sqrt), [6, 3, 0]);
/// ```
#[must_use]
pub fn budgets(rows: &[u64], count: u64, allocation: Allocation) -> Vec<u64> {
    let mut budgets = vec![0; rows.len()];
    let mut left = count.min(rows.iter().sum());
    let mut open: Vec<usize> = (0..rows.len()).filter(|&stratum| rows[stratum] > 0).collect();
    loop {
        let total: f64 = open.iter().map(|&stratum| allocation.weight(rows[stratum])).sum();
        let quota = |stratum: usize| left as f64 * (allocation.weight(rows[stratum]) / total);
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&stratum| quota(stratum) >= rows[stratum] as f64);
        if full.is_empty() {
            round(&open, left, quota, &mut budgets);
            return budgets;
        }
        for stratum in full {
            budgets[stratum] = rows[stratum].min(left);
            left -= budgets[stratum];
        }
        open = rest;
    }
}

/// Return the budgets of named strata, as [`budgets`]; equal remainders go in the order of the names, whatever the order of the
/// strata.
///
/// ```
/// use karl_core::sample::strata::{Allocation, budgets_by_name};
/// assert_eq!(budgets_by_name(&[10, 10], &["b", "a"], 3, Allocation::Equal), [1, 2]);
/// ```
#[must_use]
pub fn budgets_by_name<N: Ord>(rows: &[u64], names: &[N], count: u64, allocation: Allocation) -> Vec<u64> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&one, &other| names[one].cmp(&names[other]));
    let sorted: Vec<u64> = order.iter().map(|&stratum| rows[stratum]).collect();
    let mut by_stratum = vec![0; rows.len()];
    for (stratum, budget) in order.into_iter().zip(budgets(&sorted, count, allocation)) {
        by_stratum[stratum] = budget;
    }
    by_stratum
}

/// Largest remainders.
fn round(open: &[usize], left: u64, quota: impl Fn(usize) -> f64, budgets: &mut [u64]) {
    let mut remainders: Vec<(f64, usize)> = Vec::with_capacity(open.len());
    let mut allotted = 0;
    for &stratum in open {
        let whole = libm::floor(quota(stratum));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of rows")]
        let rows = (whole as u64).min(left - allotted);
        budgets[stratum] = rows;
        allotted += rows;
        remainders.push((quota(stratum) - whole, stratum));
    }
    remainders.sort_by(|a, b| b.0.total_cmp(&a.0));
    let most = usize::try_from(left - allotted).unwrap_or(usize::MAX);
    remainders
        .iter()
        .cycle()
        .take(if open.is_empty() { 0 } else { most })
        .for_each(|&(_, s)| budgets[s] += 1);
}
