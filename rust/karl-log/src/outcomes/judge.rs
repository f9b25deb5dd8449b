//! Outcome of one trajectory from its own text.

use std::path::Path;

use super::checks::{CHECKS, checks};
use super::component::Component;
use super::graders::by_benchmark;
use super::outcome::{Evidence, Outcome};
use super::trajectory::Trajectory;
use super::work::Ran;

/// Outcome of a trajectory by its own text.
pub(super) struct Judged {
    pub(super) outcome: Outcome,
    /// Times of the runs behind `tests`, `build` and `lint`.
    pub(super) checked: [Option<i64>; CHECKS.len()],
}

/// Return the components that the transcript itself shows.
pub(super) fn judge(trajectory: &Trajectory<'_>, calls: &[Ran<'_>]) -> Judged {
    let mut outcome = Outcome::default();
    by_benchmark(trajectory, &mut outcome);
    let directory = trajectory.source.cwd.as_deref().map(Path::new);
    let checked = checks(calls, directory, &mut outcome);
    interrupted(trajectory, calls, &mut outcome);
    Judged { outcome, checked }
}

/// Set `interrupted`: the user stopped a turn, or refused a call.
fn interrupted(trajectory: &Trajectory<'_>, calls: &[Ran<'_>], outcome: &mut Outcome) {
    let refused = calls.iter().find(|ran| ran.is_refused_by_user());
    let stopped = trajectory.messages.iter().position(|message| message.interrupted);
    let (value, evidence) = match (refused, stopped) {
        (Some(ran), _) => (
            1.0,
            Evidence {
                message: Some(ran.message),
                call: Some(ran.id.to_owned()),
                why: "the user refused the call or stopped it".to_owned(),
                ..Evidence::default()
            },
        ),
        (None, Some(message)) => (
            1.0,
            Evidence {
                message: Some(message),
                why: "the user stopped the turn after this message".to_owned(),
                ..Evidence::default()
            },
        ),
        // Without any message nothing could be stopped.
        (None, None) if trajectory.messages.is_empty() => return,
        (None, None) => (
            0.0,
            Evidence { why: "no turn was stopped and no call refused".to_owned(), ..Evidence::default() },
        ),
    };
    outcome.set(Component::Interrupted, value, evidence);
}
