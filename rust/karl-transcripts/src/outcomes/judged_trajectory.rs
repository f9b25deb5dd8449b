//! Trajectory with what is known of it while the others are read.

use karl_log::columns::PackedPlace;

use super::checks::CHECKS;
use super::outcome::Outcome;
use super::request::Request;
use crate::tool_calls::SessionWork;

/// Trajectory of a session or sub-agent.
pub(super) struct JudgedTrajectory {
    pub(super) place: PackedPlace,
    pub(super) digest: u64,
    /// Trajectory that called it.
    pub(super) parent: Option<String>,
    /// First prompt of its user.
    pub(super) request: Option<Request>,
    /// Issue or pull request that this prompt names.
    pub(super) issue: Option<String>,
    /// Commit at which it began, where the tool recorded one.
    pub(super) base_commit: Option<String>,
    /// Group, if it has one, or is found to have one.
    pub(super) group: Option<String>,
    pub(super) work: SessionWork,
    pub(super) outcome: Outcome,
    /// Times of the runs behind `tests`, `build` and `lint`.
    pub(super) checked: [Option<i64>; CHECKS.len()],
}
