//! Which tools, and how fast.

use crate::{Fault, Signal, Trajectory, Value, Version, larger, smaller};

/// The signal of the trajectory's shape; `duration` is in seconds.
///
/// ```text
/// v1: .35 diversity + .35 pace + .30 touch
/// v2: .25 diversity + .25 pace + .20 touch + .30 sustained
///
/// diversity = -sum_c p_c log2 p_c / log2 C, p_c = count_c / total       .3 for fewer than two tools C
/// pace      = 1 in [2, 8] calls a minute; .8 above; .6 in [1, 2); max(.2, .5 - .3 (1 - x)) below; .5 where unknown
/// touch     = min(1, (Write + Edit + NotebookEdit) / max(.3 total, 1))
/// sustained = .5 below 8 calls; .6 below 20; then .5 + .5 min(1, (total - 20) / 40), or .4 where fewer than 85 %
///             of the calls went well
/// ```
///
/// The entropy is added up in the order of the tools. .5 where the total is 0.
///
/// # Errors
/// [`Fault::Attribute`] for counts that are no object; [`Fault::Type`]
/// and [`Fault::Overflow`] for what is no number, or one beyond floats; [`Fault::ZeroDivision`] as Python has it.
pub fn efficiency(trajectory: &Trajectory<'_>, duration: &Value<'_>) -> Result<Signal, Fault> {
    let v1 = trajectory.version == Version::V1;
    if trajectory.total.or_zero().is_zero() {
        let parts = [("r_diversity", 0.5), ("r_duration_eff", 0.5), ("r_file_touch", 0.5)];
        return Ok(if v1 { Signal::new(0.5, parts) } else { with_sustained(0.5, parts, 0.5) });
    }
    let (diversity, pace) = (diversity(trajectory)?, pace(trajectory, duration)?);
    let touch = touch(trajectory)?;
    let parts = [("r_diversity", diversity), ("r_duration_eff", pace), ("r_file_touch", touch)];
    if v1 {
        return Ok(Signal::new(of_three(diversity, pace, touch), parts));
    }
    let sustained = sustained(trajectory)?;
    Ok(with_sustained(of_four(diversity, pace, touch, sustained), parts, sustained))
}

pub(crate) fn of_three(diversity: f64, pace: f64, touch: f64) -> f64 {
    diversity * 0.35 + pace * 0.35 + touch * 0.30
}

pub(crate) fn of_four(diversity: f64, pace: f64, touch: f64, sustained: f64) -> f64 {
    diversity * 0.25 + pace * 0.25 + touch * 0.20 + sustained * 0.30
}

fn with_sustained(score: f64, [diversity, pace, touch]: [(&'static str, f64); 3], sustained: f64) -> Signal {
    Signal::new(score, [diversity, pace, touch, ("r_sustained", sustained)])
}

fn diversity(trajectory: &Trajectory<'_>) -> Result<f64, Fault> {
    if !trajectory.counts.several()? {
        return Ok(0.3);
    }
    let tools = trajectory.counts.tools()?;
    let mut entropy = 0.0;
    for (_, count) in tools {
        let share = count.number()?.over(trajectory.total.number()?)?;
        if share > 0.0 {
            entropy -= share * libm::log2(share);
        }
    }
    Ok(entropy / libm::log2(tools.len() as f64))
}

fn pace(trajectory: &Trajectory<'_>, duration: &Value<'_>) -> Result<f64, Fault> {
    if !duration.truth() || !duration.number()?.above(0) {
        return Ok(0.5);
    }
    let a_minute = trajectory.total.number()?.over(duration.number()?)? * 60.0;
    Ok(pace_of(a_minute))
}

/// The pace, by calls a minute.
pub(crate) fn pace_of(a_minute: f64) -> f64 {
    if (2.0..=8.0).contains(&a_minute) {
        1.0
    } else if a_minute > 8.0 {
        0.8
    } else if a_minute >= 1.0 {
        0.6
    } else {
        larger(0.2, 0.5 - (1.0 - a_minute) * 0.3)
    }
}

fn touch(trajectory: &Trajectory<'_>) -> Result<f64, Fault> {
    let mut mutations = Value::Int(0).number()?;
    for (_, count) in trajectory.counts.tools()?.iter().filter(|(mutation, _)| *mutation) {
        mutations = mutations.plus(count.number()?)?;
    }
    let total = trajectory.total.number()?.float()?;
    Ok(touch_of(mutations.float()?, total))
}

/// The share of calls that change files; three of ten are all.
pub(crate) fn touch_of(mutations: f64, total: f64) -> f64 {
    smaller(1.0, mutations / larger(total * 0.3, 1.0))
}

/// Long work that went well is work, whatever its mix of tools.
fn sustained(trajectory: &Trajectory<'_>) -> Result<f64, Fault> {
    let total = trajectory.total.number()?;
    let said = |value: &Value<'_>| if value.truth() { value.number() } else { Value::Int(0).number() };
    let (good, bad) = (said(&trajectory.successes)?, said(&trajectory.failures)?);
    let all = good.plus(bad)?;
    let rate = if all.above(0) { good.over(all)? } else { 1.0 };
    Ok(sustained_of(total.float()?, rate))
}

/// How sustained so many calls are of which that share went well.
pub(crate) fn sustained_of(total: f64, rate: f64) -> f64 {
    if total >= 20.0 {
        if rate >= 0.85 { 0.5 + 0.5 * smaller(1.0, (total - 20.0) / 40.0) } else { 0.4 }
    } else if total >= 8.0 {
        0.6
    } else {
        0.5
    }
}
