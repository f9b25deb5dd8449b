//! The measurements that the formula asks of a trajectory.

/// The measurements of a trajectory that both versions ask for.
pub(crate) trait Measures {
    /// Error of a measurement.
    type Fault;

    /// Return whether the total of calls is 0.
    fn is_empty(&self) -> bool;
    /// Return successes / total; .5 where the total is not above 0.
    fn success_rate(&self) -> Result<f64, Self::Fault>;
    /// Return failed calls of Bash / calls of Bash; 0 without such calls.
    fn bash_error_rate(&self) -> Result<f64, Self::Fault>;
    /// Return the longest run of failed calls; 0 where no failure is counted.
    fn longest_failure(&self) -> Result<usize, Self::Fault>;
    /// Raise what reading the duration raised, which KARL does before it looks at the tools.
    fn timed(&self) -> Result<(), Self::Fault> {
        Ok(())
    }
    /// Return the entropy of the tools over its maximum; none for fewer than two tools.
    fn diversity(&self) -> Result<Option<f64>, Self::Fault>;
    /// Return the calls a minute; none where the duration is not known.
    fn calls_a_minute(&self) -> Result<Option<f64>, Self::Fault>;
    /// Return the calls of tools that change files, and the total.
    fn mutations(&self) -> Result<(f64, f64), Self::Fault>;
}

/// The measurements that v2 asks for besides.
pub(crate) trait MeasuresV2: Measures {
    /// Return whether each call failed, in order.
    fn failed(&self) -> Result<impl ExactSizeIterator<Item = bool>, Self::Fault>;
    /// Return successes / (successes + failures), 1 where nothing is counted; and the total.
    fn good_share(&self) -> Result<(f64, f64), Self::Fault>;
    /// Return what was verified: whether a test ran, a build ran, and a written file was read.
    fn verified(&self) -> Result<[bool; 3], Self::Fault>;
    /// Return whether a tool that changes files was called.
    fn changes_files(&self) -> Result<bool, Self::Fault>;
    /// Return whether the total of calls is below 3.
    fn is_short(&self) -> Result<bool, Self::Fault>;
    /// Return how files were written.
    fn writes(&self) -> Result<Writes, Self::Fault>;
    /// Return what was done in vain.
    fn waste(&self) -> Result<Waste, Self::Fault>;
}

/// The writes of files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writes {
    pub(crate) count: u32,
    /// Writes of files that were read before.
    pub(crate) prepared: u32,
    /// Files that were written three times or more.
    pub(crate) often: usize,
}

/// Calls in vain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waste {
    pub(crate) stuck: usize,
    pub(crate) loops: usize,
    pub(crate) undone: usize,
    pub(crate) reads: usize,
    /// Reads of files that are never written.
    pub(crate) idle: usize,
}
