//! The formula of the reward: six signals and their weighted sum, over what a trajectory measures.
//!
//! Typed records, raw lines and columns implement `Measures`, and for v2 `MeasuresV2`. Methods are called in KARL's
//! order, so that a record raises what KARL raises first; counted calls raise nothing. Durations are in seconds.
//!
//! Outcome, of the turns that follow, is the same in v1 and v2:
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
//!
//! Process, of the calls' success, is .5 where the total is 0; an event is good unless it is marked as failed:
//!
//! ```text
//! v1: .45 successes / total          + .30 bash + .25 density
//! v2: .40 sum_good w_i / sum_i w_i   + .25 bash + .20 density + .15 late,   w_i = .5 + i / max(n - 1, 1)
//!
//! bash    = 1 - bash_errors / calls of Bash             1 without such calls
//! density = max(0, 1 - .15 (m - 2))                     1 without failures, or with runs of failures m < 3
//! late    = max(0, 1 - .15 failures of the last max(1, n / 4) events)
//! ```
//!
//! Efficiency, of the mix of tools and of the pace, is .5 where the total is 0; the entropy is added up in the order of the
//! tools:
//!
//! ```text
//! v1: .35 diversity + .35 pace + .30 touch
//! v2: .25 diversity + .25 pace + .20 touch + .30 sustained
//!
//! diversity = -sum_c p_c log2 p_c / log2 C, p_c = count_c / total       .3 for fewer than two tools C
//! pace      = 1 in [2, 8] calls a minute; .8 above; .6 in [1, 2); max(.2, .5 - .3 (1 - x)) below; .5 where unknown
//! touch     = min(1, (Write + Edit + NotebookEdit) / max(.3 total, 1))
//! sustained = .5 below 8 calls; .6 below 20; then .5 + .5 min(1, (total - 20) / 40), or .4 where fewer than 85 %
//!             of the calls went well
//! ```
//!
//! v2 alone has the signals of tests, builds and second looks, of a plan that was followed, and of forward motion.
//!
//! ```text
//! verification = .4 [a test ran] + .3 [a build ran] + .09 [a written file was read]
//! ```
//!
//! A test or a build is a command of Bash ([`Words`](crate::Words)). Verification is .6
//! where no tool changed a file, .5 where the total is 0.
//!
//! ```text
//! consistency = .6 (writes of a file read before / writes) + .4 max(0, 1 - .2 files written three times or more)
//! motion      = exp(-.15 (2 stuck + 1.5 loops + undone + 3 idle))
//!
//! stuck  = runs of three calls or more of one tool with a failure among them
//! loops  = failed calls of Bash right after a failed call of Bash
//! undone = writes of a file right after a write of it
//! idle   = reads of files that are never written / reads
//! ```
//!
//! The first share is .5 without writes. Consistency is .6 and motion .8 where the total is below 3.

use std::sync::LazyLock;

use crate::python_arithmetic::{clip, larger, round4, smaller};

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
    fn check_duration(&self) -> Result<(), Self::Fault> {
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
    fn failure_flags(&self) -> Result<impl ExactSizeIterator<Item = bool>, Self::Fault>;
    /// Return successes / (successes + failures), 1 where nothing is counted; and the total.
    fn good_share(&self) -> Result<(f64, f64), Self::Fault>;
    /// Return what was verified: whether a test ran, a build ran, and a written file was read.
    fn verifications(&self) -> Result<[bool; 3], Self::Fault>;
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

/// A named part of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalComponent {
    /// KARL's name of it.
    pub name: &'static str,
    /// Rounded to four decimals.
    pub value: f64,
    /// True if KARL writes it as an integer.
    pub whole: bool,
}

/// A signal: its score in `[0, 1]`, not rounded, and its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// The score.
    pub score: f64,
    /// The parts, in KARL's order.
    pub components: Vec<SignalComponent>,
}

/// A signal as the formula gives it, without memory of its own: what only the score is read of costs nothing more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<const N: usize> {
    pub(crate) score: f64,
    parts: [(&'static str, f64); N],
}

impl<const N: usize> Parts<N> {
    /// Clip the score to `[0, 1]`.
    #[inline]
    pub(crate) fn new(score: f64, parts: [(&'static str, f64); N]) -> Self {
        Self { score: clip(score), parts }
    }
}

impl<const N: usize> From<Parts<N>> for Signal {
    fn from(Parts { score, parts }: Parts<N>) -> Self {
        let part = |(name, value)| SignalComponent { name, value: round4(value), whole: false };
        Self { score, components: parts.map(part).to_vec() }
    }
}

/// The weights of v2: outcome, process, efficiency, verification, consistency, motion.
pub(crate) const V2: [f64; 6] = [0.25, 0.22, 0.13, 0.13, 0.13, 0.14]; // code: karl/reward_engine.py of c41d1c5

/// The signals of v1 besides the outcome.
pub(crate) struct SignalsV1 {
    pub(crate) process: Parts<3>,
    pub(crate) efficiency: Parts<3>,
}

impl SignalsV1 {
    /// Compute the signals in KARL's order.
    #[inline]
    pub(crate) fn of<M: Measures>(measures: &M) -> Result<Self, M::Fault> {
        Ok(Self { process: process_v1(measures)?, efficiency: efficiency_v1(measures)? })
    }

    /// Return the scores in the order of the weights.
    #[inline]
    pub(crate) fn scores(&self, flags: [Option<bool>; 4]) -> [f64; 3] {
        [outcome_score(flags), self.process.score, self.efficiency.score]
    }
}

/// The signals of v2 besides the outcome.
pub(crate) struct SignalsV2 {
    pub(crate) process: Parts<4>,
    pub(crate) efficiency: Parts<4>,
    pub(crate) verification: Verification,
    pub(crate) consistency: Parts<2>,
    pub(crate) motion: Parts<0>,
}

impl SignalsV2 {
    /// Compute the signals in KARL's order.
    #[inline]
    pub(crate) fn of<M: MeasuresV2>(measures: &M) -> Result<Self, M::Fault> {
        Ok(Self {
            process: process_v2(measures)?,
            efficiency: efficiency_v2(measures)?,
            verification: verification(measures)?,
            consistency: consistency(measures)?,
            motion: motion(measures)?,
        })
    }

    /// Return the scores in the order of the weights.
    #[inline]
    pub(crate) fn scores(&self, flags: [Option<bool>; 4]) -> [f64; 6] {
        [
            outcome_score(flags),
            self.process.score,
            self.efficiency.score,
            self.verification.score,
            self.consistency.score,
            self.motion.score,
        ]
    }
}

/// Return the weighted sum of the scores, added from left to right and rounded to four decimals.
#[inline]
pub(crate) fn composite<const S: usize>(scores: [f64; S], weights: [f64; S]) -> f64 {
    let mut terms = scores.iter().zip(weights).map(|(score, weight)| weight * score);
    let first = terms.next().unwrap_or_default();
    round4(terms.fold(first, |sum, term| sum + term))
}

/// The terms of each flag: false, true, not set.
const DELTAS: [[f64; 3]; 4] = [[0.35, -0.35, 0.0], [0.25, -0.25, 0.0], [-0.10, 0.20, 0.0], [0.0, 0.20, 0.0]];

/// The keys of an outcome.
pub const OUTCOME: [&str; 4] = ["correction_detected", "redo_detected", "build_success", "session_continued"];

/// Return the score of the outcome by its flags, in the order of [`OUTCOME`]; .5 where none is set.
fn outcome_score(flags: [Option<bool>; 4]) -> f64 {
    let deltas = flags.iter().zip(DELTAS).map(|(flag, delta)| delta[flag.map_or(2, usize::from)]);
    clip(deltas.fold(0.5, |score, delta| score + delta))
}

/// Return the signal of the outcome: a component for each flag that is set, and their number.
pub(crate) fn outcome_signal(flags: [Option<bool>; 4]) -> Signal {
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
    Signal { score: outcome_score(flags), components }
}

/// Return the signal of the calls' success in v1.
#[inline]
pub(crate) fn process_v1<M: Measures>(measures: &M) -> Result<Parts<3>, M::Fault> {
    if measures.is_empty() {
        return Ok(Parts::new(0.5, name_process(0.5, 1.0, 1.0)));
    }
    let rate = measures.success_rate()?;
    let (bash, density) = (1.0 - measures.bash_error_rate()?, score_density(measures.longest_failure()?));
    Ok(Parts::new(rate * 0.45 + bash * 0.30 + density * 0.25, name_process(rate, bash, density)))
}

/// Return the signal of the calls' success in v2.
#[inline]
pub(crate) fn process_v2<M: MeasuresV2>(measures: &M) -> Result<Parts<4>, M::Fault> {
    if measures.is_empty() {
        return Ok(process_with_late(0.5, name_process(0.5, 1.0, 1.0), 0.5));
    }
    let rate = weighted_rate(measures.failure_flags()?);
    let (bash, density) = (1.0 - measures.bash_error_rate()?, score_density(measures.longest_failure()?));
    let late = score_last_quarter(measures.failure_flags()?);
    let score = rate * 0.40 + bash * 0.25 + density * 0.20 + late * 0.15;
    Ok(process_with_late(score, name_process(rate, bash, density), late))
}

fn name_process(rate: f64, bash: f64, density: f64) -> [(&'static str, f64); 3] {
    [("r_success_rate", rate), ("r_bash_clean", bash), ("r_error_density", density)]
}

fn process_with_late(score: f64, [rate, bash, density]: [(&'static str, f64); 3], late: f64) -> Parts<4> {
    Parts::new(score, [rate, bash, density, ("r_temporal_weight", late)])
}

/// Return the share of events that have not failed; later events weigh more, from .5 to 1.5.
fn weighted_rate(failed: impl ExactSizeIterator<Item = bool>) -> f64 {
    let count = failed.len();
    match EVENT_WEIGHTS.get(count) {
        Some(weights) => weights.share(failed),
        None => EventWeights::of(count).share(failed),
    }
}

static EVENT_WEIGHTS: LazyLock<Vec<EventWeights>> =
    LazyLock::new(|| (0..=TABLE).map(EventWeights::of).collect());

/// Trajectories of up to this many events have their weights in a table of 17 kB, which saves a division an event.
const TABLE: usize = 64;

/// The weights of the events of a trajectory.
struct EventWeights {
    weights: Vec<f64>,
    sum: f64,
}

impl EventWeights {
    fn of(count: usize) -> Self {
        let last = count.saturating_sub(1).max(1) as f64;
        let weights: Vec<f64> = (0..count).map(|at| 0.5 + at as f64 / last).collect();
        let sum = weights.iter().sum();
        Self { weights, sum }
    }

    /// Return the share of events that have not failed.
    fn share(&self, failed: impl Iterator<Item = bool>) -> f64 {
        // Without a branch, which would often be mispredicted.
        let good = failed.zip(&self.weights).map(|(failed, weight)| weight * f64::from(!failed));
        let good = good.fold(0.0, |sum, weight| sum + weight);
        if self.sum > 0.0 { good / self.sum } else { 0.5 }
    }
}

/// Return the density of failures, by their longest run.
fn score_density(longest: usize) -> f64 {
    if longest < 3 { 1.0 } else { larger(0.0, 1.0 - (longest - 2) as f64 * 0.15) }
}

/// Return the score of the last quarter of events.
fn score_last_quarter(failed: impl ExactSizeIterator<Item = bool>) -> f64 {
    let from = failed.len().saturating_sub((failed.len() / 4).max(1));
    let failures: u32 = failed.skip(from).map(u32::from).sum();
    larger(0.0, 1.0 - f64::from(failures) * 0.15)
}

/// Return the longest run of true values.
pub(crate) fn longest_run(failed: impl Iterator<Item = bool>) -> usize {
    let (mut longest, mut run) = (0, 0);
    for failed in failed {
        run = if failed { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Return the signal of the mix of tools and of the pace in v1.
#[inline]
pub(crate) fn efficiency_v1<M: Measures>(measures: &M) -> Result<Parts<3>, M::Fault> {
    measures.check_duration()?;
    if measures.is_empty() {
        return Ok(Parts::new(0.5, name_efficiency([0.5; 3])));
    }
    let [diversity, pace, touch] = score_shape(measures)?;
    Ok(Parts::new(diversity * 0.35 + pace * 0.35 + touch * 0.30, name_efficiency([diversity, pace, touch])))
}

/// Return the signal of the mix of tools and of the pace in v2.
#[inline]
pub(crate) fn efficiency_v2<M: MeasuresV2>(measures: &M) -> Result<Parts<4>, M::Fault> {
    measures.check_duration()?;
    if measures.is_empty() {
        return Ok(efficiency_with_sustained(0.5, [0.5; 3], 0.5));
    }
    let [diversity, pace, touch] = score_shape(measures)?;
    let (rate, total) = measures.good_share()?;
    let sustained = score_sustained(total, rate);
    let score = diversity * 0.25 + pace * 0.25 + touch * 0.20 + sustained * 0.30;
    Ok(efficiency_with_sustained(score, [diversity, pace, touch], sustained))
}

fn name_efficiency([diversity, pace, touch]: [f64; 3]) -> [(&'static str, f64); 3] {
    [("r_diversity", diversity), ("r_duration_eff", pace), ("r_file_touch", touch)]
}

fn efficiency_with_sustained(score: f64, shape: [f64; 3], sustained: f64) -> Parts<4> {
    let [diversity, pace, touch] = name_efficiency(shape);
    Parts::new(score, [diversity, pace, touch, ("r_sustained", sustained)])
}

/// Return diversity, pace and touch.
#[inline]
fn score_shape<M: Measures>(measures: &M) -> Result<[f64; 3], M::Fault> {
    let diversity = measures.diversity()?.unwrap_or(0.3);
    let pace = measures.calls_a_minute()?.map_or(0.5, score_pace);
    let (mutations, total) = measures.mutations()?;
    // Three calls of ten that change files are all that is asked for.
    let touch = smaller(1.0, mutations / larger(total * 0.3, 1.0));
    Ok([diversity, pace, touch])
}

/// Return the pace of so many calls a minute.
fn score_pace(a_minute: f64) -> f64 {
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

/// Return how sustained `total` calls are, a share `rate` of which went well.
fn score_sustained(total: f64, rate: f64) -> f64 {
    if total >= 20.0 {
        if rate >= 0.85 { 0.5 + 0.5 * smaller(1.0, (total - 20.0) / 40.0) } else { 0.4 }
    } else if total >= 8.0 {
        0.6
    } else {
        0.5
    }
}

/// Return the diversity of tools: the entropy of those that were called `counts` times, `total` times in all, over its maximum; none for fewer than two.
///
/// Speed: no logarithm for trajectories of up to 64 calls, whose terms are in a table. No record isolates it;
/// `benches/record/reward.json`, columns, includes it.
pub(crate) fn diversity(counts: impl ExactSizeIterator<Item = u32>, total: u32) -> Option<f64> {
    let tools = counts.len();
    if tools < 2 {
        return None;
    }
    let terms = &*TERMS;
    Some(counts.fold(0.0, |sum, count| sum - terms.of(count, total)) / terms.log2(tools))
}

static TERMS: LazyLock<Terms> = LazyLock::new(Terms::new);

/// The table: p log2 p for p = count / total of all trajectories of up to 64 calls, and log2 of up to 64 tools.
struct Terms {
    terms: Vec<f64>,
    bits: Vec<f64>,
}

impl Terms {
    const MOST: u32 = 64;

    fn new() -> Self {
        let sizes = (0..=Self::MOST).flat_map(|total| (0..=Self::MOST).map(move |count| (count, total)));
        let terms = sizes.map(|(count, total)| entropy_term(count, total)).collect();
        Self { terms, bits: (0..=Self::MOST).map(|tools| libm::log2(tools.into())).collect() }
    }

    fn of(&self, count: u32, total: u32) -> f64 {
        if total.max(count) > Self::MOST {
            return entropy_term(count, total);
        }
        self.terms[(total * (Self::MOST + 1) + count) as usize]
    }

    fn log2(&self, tools: usize) -> f64 {
        self.bits.get(tools).copied().unwrap_or_else(|| libm::log2(tools as f64))
    }
}

/// Return p log2 p; 0 for a count of 0.
fn entropy_term(count: u32, total: u32) -> f64 {
    let share = f64::from(count) / f64::from(total);
    if share > 0.0 { share * libm::log2(share) } else { 0.0 }
}

/// The signal, and whether it is that of a trajectory that changed no file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verification {
    pub(crate) score: f64,
    seen: [bool; 3],
    unchanged: bool,
}

/// Return the signal of tests, builds and second looks.
#[inline]
pub(crate) fn verification<M: MeasuresV2>(measures: &M) -> Result<Verification, M::Fault> {
    let none = Verification { score: 0.5, seen: [false; 3], unchanged: false };
    if measures.is_empty() {
        return Ok(none);
    }
    let seen @ [test, build, read] = measures.verifications()?;
    if !measures.changes_files()? {
        return Ok(Verification { score: 0.6, unchanged: true, ..none });
    }
    let again = if read { 0.3 } else { 0.0 };
    let score = f64::from(test) * 0.4 + f64::from(build) * 0.3 + again * 0.3;
    Ok(Verification { score: clip(score), seen, unchanged: false })
}

impl From<Verification> for Signal {
    fn from(Verification { score, seen, unchanged }: Verification) -> Self {
        let [test, build, read] = seen.map(f64::from);
        let [test, build, read] =
            [("r_has_test", test), ("r_has_build", build), ("r_read_after_write", read)];
        if unchanged {
            return Parts::new(score, [test, build, read, ("r_no_mutation", 1.0)]).into();
        }
        Parts::new(score, [test, build, read]).into()
    }
}

/// Return the signal of a plan that was followed.
#[inline]
pub(crate) fn consistency<M: MeasuresV2>(measures: &M) -> Result<Parts<2>, M::Fault> {
    if measures.is_short()? {
        return Ok(Parts::new(0.6, [("r_read_before_write", 0.5), ("r_no_thrashing", 1.0)]));
    }
    let Writes { count, prepared, often } = measures.writes()?;
    let before = if count > 0 { f64::from(prepared) / f64::from(count) } else { 0.5 };
    let calm = if often == 0 { 1.0 } else { larger(0.0, 1.0 - often as f64 * 0.2) };
    Ok(Parts::new(before * 0.6 + calm * 0.4, [("r_read_before_write", before), ("r_no_thrashing", calm)]))
}

/// Return the signal of forward motion.
#[inline]
pub(crate) fn motion<M: MeasuresV2>(measures: &M) -> Result<Parts<0>, M::Fault> {
    if measures.is_short()? {
        return Ok(Parts::new(0.8, []));
    }
    let Waste { stuck, loops, undone, reads, idle } = measures.waste()?;
    let idle = if reads == 0 { 0.0 } else { idle as f64 / reads as f64 };
    let waste = stuck as f64 * 2.0 + loops as f64 * 1.5 + undone as f64 + idle * 3.0;
    Ok(Parts::new(libm::exp(-0.15 * waste), []))
}
