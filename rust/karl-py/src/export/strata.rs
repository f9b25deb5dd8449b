//! A budget dealt over the strata of a log.

use std::borrow::Cow;

use karl_core::Verdict;
use karl_core::sample::strata::{Allocation, budgets_by_name};
use karl_log::columns::category::Category;
use karl_log::export::Strata;
use karl_log::intern::Names;
use pyo3::prelude::*;

use crate::selection::Selection;

/// Budget and drawn rows of one stratum, as a dictionary.
#[derive(Clone, IntoPyObject)]
pub(super) struct Stratum {
    name: Option<String>,
    kept: u64,
    budget: u64,
    drawn: u64,
}

/// A budget dealt over the strata of a log.
pub(super) struct StrataDraw<'a> {
    column: &'a Category,
    codes: Cow<'a, [u32]>,
    kept: Vec<u64>,
    budgets: Vec<u64>,
}

/// Return the strata that `export` asks for; rows without a name are a stratum of their own, the last.
pub(super) fn strata<'a>(
    selection: &'a Selection,
    count: usize,
    per: Option<&(String, Allocation)>,
) -> PyResult<Option<StrataDraw<'a>>> {
    let Some((field, allocation)) = per else { return Ok(None) };
    let column = selection.log.get().by_name(field)?;
    let names = column.names();
    let codes = column.codes();
    let strata = Strata { codes: &codes, budgets: vec![0; names.len() + 1] };
    let mut kept = strata.budgets.clone();
    for (row, &verdict) in (0..).zip(&selection.inner.verdicts) {
        kept[strata.of(row)] += u64::from(verdict == Verdict::Kept);
    }
    // Rows without a name come last.
    let ordered = |code| name(names, code).map_or((true, ""), |name| (false, name));
    let order: Vec<(bool, &str)> = (0..kept.len()).map(ordered).collect();
    let budgets = budgets_by_name(&kept, &order, count as u64, *allocation);
    Ok(Some(StrataDraw { column, codes, kept, budgets }))
}

fn name(names: &Names, code: usize) -> Option<&str> {
    names.get(u32::try_from(code).ok()?)
}

impl StrataDraw<'_> {
    pub(super) fn limits(&self) -> Strata<'_> {
        Strata { codes: &self.codes, budgets: self.budgets.clone() }
    }

    /// Return the draw from each stratum that has rows, by name, or of the largest ones if there are many; and their
    /// number.
    pub(super) fn tell(&self, rows: &[u32]) -> (Vec<Stratum>, usize) {
        let (limits, mut drawn) = (self.limits(), vec![0; self.kept.len()]);
        for &row in rows {
            drawn[limits.of(row)] += 1;
        }
        let stratum = |code: usize| Stratum {
            name: name(self.column.names(), code).map(str::to_owned),
            kept: self.kept[code],
            budget: self.budgets[code],
            drawn: drawn[code],
        };
        let unnamed = self.kept.len() - 1;
        let named = self.column.largest(&self.kept).into_iter().map(|code| code as usize);
        let told = named.chain((self.kept[unnamed] > 0).then_some(unnamed)).map(stratum).collect();
        (told, self.kept.iter().filter(|&&kept| kept > 0).count())
    }
}
