//! What the user did next.

use crate::node::values;
use crate::{Component, Fault, Node, Signal, Value, clip};

/// What each flag adds: said and false, said and true, not said.
pub(crate) const DELTAS: [[f64; 3]; 4] =
    [[0.35, -0.35, 0.0], [0.25, -0.25, 0.0], [-0.10, 0.20, 0.0], [0.0, 0.20, 0.0]];

/// What is asked of an outcome.
pub const OUTCOME: [&str; 4] = ["correction_detected", "redo_detected", "build_success", "session_continued"];

/// The signal of the turns that follow; v1 and v2 have the same.
///
/// ```text
/// outcome = clip(.5 + sum of d over what is said, 0, 1)
///
///                     said and true   said and false
/// correction_detected     -.35            +.35
/// redo_detected           -.25            +.25
/// build_success           +.20            -.10
/// session_continued       +.20              0
/// ```
///
/// Whatever Python holds for true is true. The flags stand in the order of [`OUTCOME`]; .5 where none is said.
#[must_use]
pub fn outcome(flags: &[Value<'_>; 4]) -> Signal {
    const NAMES: [&str; 4] = ["r_no_correction", "r_no_redo", "r_build_pass", "r_session_continued"];
    let mut signal = Signal { score: 0.5, components: Vec::with_capacity(11) };
    for (at, flag) in flags.iter().enumerate().filter(|(_, flag)| !flag.is_none()) {
        let truth = flag.truth();
        signal.score += DELTAS[at][usize::from(truth)];
        let good = truth == (at > 1);
        signal.components.push(Component { name: NAMES[at], value: f64::from(good), whole: false });
    }
    let said = signal.components.len() as f64;
    signal.components.push(Component { name: "outcome_signals_available", value: said, whole: true });
    signal.score = clip(signal.score);
    signal
}

/// What an outcome says; nothing where there is none.
///
/// # Errors
/// [`Fault::Attribute`] for an outcome that is no object.
pub fn said<'a, N: Node<'a>>(node: Option<&N>) -> Result<[Value<'a>; 4], Fault> {
    node.map_or(Ok([const { Value::Absent }; 4]), |node| values(node, OUTCOME))
}
