//! The signal of the turns that follow; v1 and v2 have the same.
//!
//! ```text
//! outcome = clip(.5 + sum of d over the flags that are set, 0, 1)
//!
//!                     true    false
//! correction_detected -.35    +.35
//! redo_detected       -.25    +.25
//! build_success       +.20    -.10
//! session_continued   +.20      0
//! ```

use crate::python_arithmetic::clip;
use crate::signal::{Signal, SignalComponent};

/// The terms of each flag: false, true, not set.
const DELTAS: [[f64; 3]; 4] = [[0.35, -0.35, 0.0], [0.25, -0.25, 0.0], [-0.10, 0.20, 0.0], [0.0, 0.20, 0.0]];

/// The keys of an outcome.
pub const OUTCOME: [&str; 4] = ["correction_detected", "redo_detected", "build_success", "session_continued"];

/// Return the score of the flags, in the order of [`OUTCOME`]; .5 where none is set.
pub(crate) fn score(flags: [Option<bool>; 4]) -> f64 {
    let deltas = flags.iter().zip(DELTAS).map(|(flag, delta)| delta[flag.map_or(2, usize::from)]);
    clip(deltas.fold(0.5, |score, delta| score + delta))
}

/// Return the signal of the flags: a component for each flag that is set, and their number.
pub(crate) fn signal(flags: [Option<bool>; 4]) -> Signal {
    const NAMES: [&str; 4] = ["r_no_correction", "r_no_redo", "r_build_pass", "r_session_continued"];
    let mut components = Vec::with_capacity(11);
    for (at, flag) in flags.iter().enumerate() {
        let good = |truth: bool| f64::from(truth == (at > 1));
        components.extend(flag.map(|truth| SignalComponent {
            name: NAMES[at],
            value: good(truth),
            whole: false,
        }));
    }
    let available = components.len() as f64;
    components.push(SignalComponent { name: "outcome_signals_available", value: available, whole: true });
    Signal { score: score(flags), components }
}
