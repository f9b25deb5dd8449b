//! Outcome of one trajectory from its own text.

use std::path::Path;

use karl_log::format::Component;

use super::checks::{CHECKS, checks};
use super::graders::by_benchmark;
use super::next_turn::{self, TurnVerdict, next_turns};
use super::outcome::{Evidence, Outcome};
use crate::tool_calls::processes::ExecutedCall;
use crate::tool_calls::trajectory::{Trajectory, TrajectoryMessage};

/// Outcome of a trajectory by its own text.
pub(super) struct Judged {
    pub(super) outcome: Outcome,
    /// Times of the runs behind `tests`, `build` and `lint`.
    pub(super) checked: [Option<i64>; CHECKS.len()],
}

/// Return the components that the transcript itself shows.
pub(super) fn judge(trajectory: &Trajectory<'_>, calls: &[ExecutedCall<'_>]) -> Judged {
    let mut outcome = Outcome::default();
    by_benchmark(trajectory, &mut outcome);
    let directory = trajectory.source.cwd.as_deref().map(Path::new);
    let checked = checks(calls, directory, &mut outcome);
    interrupted(trajectory, calls, &mut outcome);
    corrected(trajectory, &mut outcome);
    Judged { outcome, checked }
}

/// Set `interrupted`: the user stopped a turn, or refused a call.
fn interrupted(trajectory: &Trajectory<'_>, calls: &[ExecutedCall<'_>], outcome: &mut Outcome) {
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

/// Set `corrected`: 1 if a following turn of the user corrects the work, 0 if one goes on and none corrects.
fn corrected(trajectory: &Trajectory<'_>, outcome: &mut Outcome) {
    // The turns of a sub-agent's user are its parent's.
    if trajectory.parent.is_some() {
        return;
    }
    // Commands, and other agents in the user's name, do not judge.
    let words = |message: &'_ TrajectoryMessage<'_>| message.role.as_str() != "user" || message.is_of_user();
    let texts = trajectory
        .messages
        .iter()
        .map(|message| (message.role.as_str(), if words(message) { message.content.as_str() } else { "" }));
    let mut judged: Vec<_> = next_turns(texts)
        .into_iter()
        .filter_map(|turn| next_turn::judge(&turn.text, &turn.before).map(|found| (turn.message, found)))
        .collect();
    judged.sort_by_key(|(message, found)| (found.verdict != TurnVerdict::Corrects, *message));
    if let Some((message, found)) = judged.first() {
        let corrects = found.verdict == TurnVerdict::Corrects;
        let what = if corrects { "corrects the work" } else { "goes on" };
        let why = format!("the user's turn {what} (rule {})", found.rule);
        let evidence = Evidence { message: Some(*message), why, ..Evidence::default() };
        outcome.set(Component::Corrected, f64::from(u8::from(corrects)), evidence);
    }
}
