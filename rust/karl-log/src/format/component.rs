//! Components of the outcome in canonical trajectories, and how they enter a reward.

/// Component of an outcome. The manual's page `outcomes` says where each is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Verdict of a grader or benchmark.
    Verified,
    /// Pull request merged, or closed without merging.
    Merged,
    /// Share of the committed lines that still exist after a time.
    Survived,
    /// Commit reverted.
    Reverted,
    /// Work committed.
    Committed,
    /// Last run of tests after the last edit.
    Tests,
    /// Last build after the last edit.
    Build,
    /// Last run of a linter or type checker after the last edit.
    Lint,
    /// Share of the committed lines that the agent wrote.
    Attribution,
    /// Next turn of the user corrects the work.
    Corrected,
    /// User stopped the work, or refused a permission.
    Interrupted,
    /// Same request made again within a day.
    AskedAgain,
}

impl Component {
    /// Every component, in the order of records and reports.
    pub const ALL: [Self; 12] = [
        Self::Verified,
        Self::Merged,
        Self::Survived,
        Self::Reverted,
        Self::Committed,
        Self::Tests,
        Self::Build,
        Self::Lint,
        Self::Attribution,
        Self::Corrected,
        Self::Interrupted,
        Self::AskedAgain,
    ];

    /// Return the key in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Merged => "merged",
            Self::Survived => "survived",
            Self::Reverted => "reverted",
            Self::Committed => "committed",
            Self::Tests => "tests",
            Self::Build => "build",
            Self::Lint => "lint",
            Self::Attribution => "attribution",
            Self::Corrected => "corrected",
            Self::Interrupted => "interrupted",
            Self::AskedAgain => "asked_again",
        }
    }

    /// Return whether less of it is better: it enters a reward as 1 - x.
    #[must_use]
    pub const fn is_cost(self) -> bool {
        matches!(self, Self::Reverted | Self::Corrected | Self::Interrupted | Self::AskedAgain)
    }

    /// Return the component at a path of a record, `outcome.survived`.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        let name = path.strip_prefix("outcome.")?;
        Self::ALL.into_iter().find(|component| component.name() == name)
    }
}
