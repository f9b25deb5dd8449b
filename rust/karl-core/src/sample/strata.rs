//! How a budget of rows is dealt over the strata of a log.

/// The axis: what a stratum's share grows with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// All strata alike.
    Equal,
    /// With their rows.
    Proportional,
    /// With the square root of their rows: between the two.
    Sqrt,
}

impl Deal {
    /// All deals.
    pub const ALL: [Self; 3] = [Self::Equal, Self::Proportional, Self::Sqrt];

    /// The name the command line and the manifest use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Proportional => "proportional",
            Self::Sqrt => "sqrt",
        }
    }

    /// The deal of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|deal| deal.name() == name)
    }

    fn weight(self, rows: u64) -> f64 {
        match self {
            Self::Equal => f64::from(u8::from(rows > 0)),
            Self::Proportional => rows as f64,
            Self::Sqrt => libm::sqrt(rows as f64),
        }
    }
}

/// The budget of each stratum: `count` rows dealt over strata of so many `rows`.
///
/// A stratum's quota is its weight's share of the count. One whose quota is more than its rows gets all its rows, and the
/// others share what is left by their weights, until none is over. Quotas are then rounded down, and the rows that
/// leaves go one each to the largest remainders, ties to the stratum that stands first. With fewer rows than `count` in
/// all, every stratum gets its rows.
///
/// ```
/// use karl_core::sample::strata::{Deal, budgets};
/// assert_eq!(budgets(&[100, 100, 2], 11, Deal::Equal), [5, 4, 2]);
/// assert_eq!(budgets(&[70, 20, 10], 10, Deal::Proportional), [7, 2, 1]);
/// assert_eq!(budgets(&[100, 25, 0], 9, Deal::Sqrt), [6, 3, 0]);
/// ```
#[must_use]
pub fn budgets(rows: &[u64], count: u64, deal: Deal) -> Vec<u64> {
    let mut budgets = vec![0; rows.len()];
    let mut left = count.min(rows.iter().sum());
    let mut open: Vec<usize> = (0..rows.len()).filter(|&stratum| rows[stratum] > 0).collect();
    loop {
        let total: f64 = open.iter().map(|&stratum| deal.weight(rows[stratum])).sum();
        let quota = |stratum: usize| left as f64 * (deal.weight(rows[stratum]) / total);
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

/// Largest remainders.
fn round(open: &[usize], left: u64, quota: impl Fn(usize) -> f64, budgets: &mut [u64]) {
    let mut remainders: Vec<(f64, usize)> = Vec::with_capacity(open.len());
    let mut dealt = 0;
    for &stratum in open {
        let whole = libm::floor(quota(stratum));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of rows")]
        let rows = (whole as u64).min(left - dealt);
        budgets[stratum] = rows;
        dealt += rows;
        remainders.push((quota(stratum) - whole, stratum));
    }
    remainders.sort_by(|a, b| b.0.total_cmp(&a.0));
    let most = usize::try_from(left - dealt).unwrap_or(usize::MAX);
    remainders
        .iter()
        .cycle()
        .take(if open.is_empty() { 0 } else { most })
        .for_each(|&(_, s)| budgets[s] += 1);
}
