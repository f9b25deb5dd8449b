//! Replacement of columns by the caller's.

use super::Log;
use crate::columns::category::Category;
use crate::error::Result;

impl Log {
    /// Replace the reward by these components, and by a reward beside them.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for a column of another length.
    pub fn with_components(mut self, components: Vec<Vec<f64>>, reward: Option<Vec<f64>>) -> Result<Self> {
        components.iter().chain(&reward).try_for_each(|column| self.check("reward", column.len()))?;
        self.shared.clear();
        self.components = components;
        self.reward = reward;
        Ok(self)
    }

    /// Replace the groups.
    ///
    /// # Errors
    /// As [`Log::with_components`].
    pub fn with_group(mut self, group: Category) -> Result<Self> {
        self.check("group", group.codes().len())?;
        self.group = group;
        Ok(self)
    }

    /// Replace the domains.
    ///
    /// # Errors
    /// As [`Log::with_components`].
    pub fn with_domain(mut self, domain: Category) -> Result<Self> {
        self.check("domain", domain.codes().len())?;
        self.domain = domain;
        Ok(self)
    }

    fn check(&self, what: &'static str, got: usize) -> Result<()> {
        let wanted = self.len();
        if got == wanted { Ok(()) } else { Err(karl_core::Error::Length { what, got, wanted }.into()) }
    }
}
