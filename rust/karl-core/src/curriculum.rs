//! Choice of the next prompts, from their success rates: those with groups of differing rewards.
//!
//! A success rate has a value for training ([`mixed_group_probability`], [`outcome_variance`], [`nearest`]); where it is not
//! known, it is estimated by a Beta distribution for each task ([`BetaPosterior`]).

use std::cmp::Ordering;

use special::Beta;

use crate::check::{check_counts, check_length, check_parts, check_range, check_within};
use crate::error::{Error, Result};
use crate::group::{check_rows, numbered};
use crate::numeric::{Real, parallel};
use crate::rng::{Key, Purpose, uniform};
use crate::sketch::codec::{Reader, SketchKind, Writer};

/// Return the probability that a group of rollouts is not all right and not all wrong.
///
/// ```text
/// M(q, K) = 1 - q^K - (1 - q)^K = -expm1(K log1p(-m)) - m^K,   m = min(q, 1 - q)
/// ```
///
/// The second form keeps all digits of a rate near 0 or 1. M is symmetric, largest at 1/2, and 0 for a group of one.
/// A missing rate (NaN) stays missing. Shapes: rates and result `[P]`. Cost: three elementary functions a rate.
///
/// # Errors
/// [`Error::Outside`] for a rate outside [0, 1]; [`Error::Positive`] for a size of 0.
pub fn mixed_group_probability<R: Real>(rates: &[R], size: u32, threads: usize) -> Result<Vec<f64>> {
    check_rates(rates)?;
    if size == 0 {
        return Err(Error::Positive { what: "size", value: 0.0 });
    }
    let k = f64::from(size);
    let one = |rate: f64| {
        let rarer = if rate > 0.5 { 1.0 - rate } else { rate };
        if size == 1 { 0.0 * rate } else { -libm::expm1(k * libm::log1p(-rarer)) - libm::pow(rarer, k) }
    };
    Ok(map_rates(rates, threads, one))
}

/// Return the variance of one rollout's outcome: `p (1 - p)`, largest where success and failure are equally likely.
///
/// A missing rate (NaN) stays missing. Shapes: rates and result `[P]`. Cost: one pass.
///
/// # Errors
/// [`Error::Outside`] for a rate outside [0, 1].
pub fn outcome_variance<R: Real>(rates: &[R], threads: usize) -> Result<Vec<f64>> {
    check_rates(rates)?;
    Ok(map_rates(rates, threads, |rate| rate * (1.0 - rate)))
}

/// Return the prompts with rates nearest to a target, nearest first.
///
/// ```text
/// the k least |rate_i - target|;   ties: the smaller id, and without ids the earlier row
/// ```
///
/// A missing rate (NaN) is never chosen. Shapes: rates and ids `[P]`, result up to `[k]`. Cost: linear, and a sort of
/// the k. Reference: PACED-RL (arXiv:2602.12642), which takes the prompts nearest to 1/2.
///
/// # Errors
/// [`Error::Outside`] for a rate outside [0, 1]; [`Error::Range`] for such a target; [`Error::Length`] where ids and
/// rates differ in rows.
pub fn nearest<R: Real>(rates: &[R], ids: Option<&[i64]>, target: f64, k: usize) -> Result<Vec<u32>> {
    check_rows(rates.len())?;
    check_rates(rates)?;
    check_range("target", target, 0.0, 1.0)?;
    let names = ids.unwrap_or_default();
    if ids.is_some() {
        check_length("ids", names.len(), rates.len())?;
    }
    let distance = |row: u32| (rates[row as usize].widen() - target).abs();
    let name = |row: u32| names.get(row as usize).copied().unwrap_or_default();
    let order = |&a: &u32, &b: &u32| -> Ordering {
        distance(a).total_cmp(&distance(b)).then(name(a).cmp(&name(b))).then(a.cmp(&b))
    };
    let mut rows: Vec<u32> = (0..numbered(rates.len())).filter(|&row| !distance(row).is_nan()).collect();
    if k < rows.len() {
        rows.select_nth_unstable_by(k, order);
        rows.truncate(k);
    }
    rows.sort_unstable_by(order);
    Ok(rows)
}

fn map_rates<R: Real>(rates: &[R], threads: usize, one: impl Fn(f64) -> f64 + Sync) -> Vec<f64> {
    let mut values = vec![0.0; rates.len()];
    parallel::fill(&mut values, threads, |first, block| {
        block.iter_mut().zip(&rates[first..]).for_each(|(value, rate)| *value = one(rate.widen()));
    });
    values
}

/// Reject rates outside [0, 1]; NaN passes, because it says "missing".
fn check_rates<R: Real>(rates: &[R]) -> Result<()> {
    check_within("rates", rates, 0.0, 1.0)
}

/// Bounds of a prior. The series of a quantile takes about as many terms as the square root of the counts, so that
/// these need a bound.
const LEAST: f64 = 1e-6;
const MOST: f64 = 1e9;

/// Counts of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    id: i64,
    successes: u64,
    failures: u64,
}

/// A Beta distribution over the success rate of each task, from counts.
///
/// ```text
/// rate ~ Beta(a + successes, b + failures)
/// mean = a' / (a' + b'),   variance = a' b' / ((a' + b')^2 (a' + b' + 1)),   a' = a + successes, b' = b + failures
/// ```
///
/// Tasks stand by ascending id. Counts are integers, so a posterior does not depend on the order or the cut of what it
/// has seen: merging the posteriors of two halves is the posterior of the whole, to the bit.
///
/// ```
/// use karl_core::curriculum::BetaPosterior;
/// let mut posterior = BetaPosterior::new(1.0, 1.0)?;
/// posterior.update(&[7, 3, 7], &[1, 0, 2], &[1, 4, 3])?;
/// assert_eq!(posterior.ids().collect::<Vec<_>>(), [3, 7]);
/// assert_eq!(posterior.mean(), [1.0 / 6.0, 4.0 / 6.0]);
/// # Ok::<(), karl_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BetaPosterior {
    prior: (f64, f64),
    tasks: Vec<Task>,
}

impl BetaPosterior {
    /// Return the posterior that has seen nothing; (1, 1) is uniform, (1/2, 1/2) is Jeffreys'.
    ///
    /// # Errors
    /// [`Error::Range`] for a parameter outside [1e-6, 1e9].
    pub fn new(a: f64, b: f64) -> Result<Self> {
        check_range("prior a", a, LEAST, MOST)?;
        check_range("prior b", b, LEAST, MOST)?;
        Ok(Self { prior: (a, b), tasks: Vec::new() })
    }

    /// Take trials in. A task may come more than once, and with no trial at all, which makes it known. On error
    /// nothing is taken. Shapes: all `[N]`. Cost: a sort of N, and one pass over the tasks.
    ///
    /// # Errors
    /// [`Error::Outside`] for a negative count, and for more successes than trials;
    /// [`Error::Length`] for columns that differ in rows.
    pub fn update(&mut self, ids: &[i64], successes: &[i64], trials: &[i64]) -> Result<()> {
        check_length("successes", successes.len(), ids.len())?;
        check_length("trials", trials.len(), ids.len())?;
        check_counts("trials", trials)?;
        check_parts("successes", successes, trials)?;
        let task = |((&id, &right), &all): ((&i64, &i64), &i64)| Task {
            id,
            successes: right.cast_unsigned(),
            failures: (all - right).cast_unsigned(),
        };
        let mut seen: Vec<Task> = ids.iter().zip(successes).zip(trials).map(task).collect();
        seen.sort_unstable_by_key(|task| task.id);
        self.add(&seen);
        Ok(())
    }

    /// Take in what another posterior has seen. On error nothing is taken. Cost: one pass over both.
    ///
    /// # Errors
    /// [`Error::Merge`] for another prior.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.prior != other.prior {
            return Err(Error::Merge { what: SketchKind::Beta.name(), differs: "prior" });
        }
        self.add(&other.tasks);
        Ok(())
    }

    fn add(&mut self, seen: &[Task]) {
        let mut all = [&self.tasks, seen].concat();
        all.sort_by_key(|task| task.id); // two runs in order: merged in one pass
        let mut tasks: Vec<Task> = Vec::with_capacity(all.len());
        for task in all {
            match tasks.last_mut().filter(|last| last.id == task.id) {
                None => tasks.push(task),
                Some(last) => {
                    last.successes = last.successes.saturating_add(task.successes);
                    last.failures = last.failures.saturating_add(task.failures);
                }
            }
        }
        self.tasks = tasks;
    }

    /// Return `a` and `b` of a task that has not been tried.
    #[must_use]
    pub fn prior(&self) -> (f64, f64) {
        self.prior
    }

    /// Return the ids of the tasks, ascending.
    #[must_use]
    pub fn ids(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.tasks.iter().map(|task| task.id)
    }

    /// Return successes and failures of each task, by ascending id.
    #[must_use]
    pub fn counts(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.tasks.iter().map(|task| (task.successes, task.failures))
    }

    /// Return the two parameters of each task's Beta distribution.
    fn parameters(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.counts().map(|(right, wrong)| (self.prior.0 + right as f64, self.prior.1 + wrong as f64))
    }

    /// Return the mean rate of each task, by ascending id.
    #[must_use]
    pub fn mean(&self) -> Vec<f64> {
        self.parameters().map(|(a, b)| a / (a + b)).collect()
    }

    /// Return the variance of the rate of each task, by ascending id.
    #[must_use]
    pub fn variance(&self) -> Vec<f64> {
        self.parameters().map(|(a, b)| (a / (a + b)) * (b / (a + b)) / (a + b + 1.0)).collect()
    }

    /// Return the rate below which each task's lies with this probability, by ascending id.
    ///
    /// The regularised incomplete beta function is halved to the last bit: about sixty evaluations a task.
    ///
    /// # Errors
    /// [`Error::Range`] for a probability outside [0, 1], and for more than 1e9 trials of one task.
    pub fn quantile(&self, probability: f64) -> Result<Vec<f64>> {
        check_range("probability", probability, 0.0, 1.0)?;
        self.counts()
            .try_for_each(|(right, wrong)| check_range("trials", right as f64 + wrong as f64, 0.0, MOST))?;
        Ok(self.parameters().map(|(a, b)| quantile(a, b, probability)).collect())
    }

    /// Draw one rate from the posterior of each task, by ascending id (Thompson sampling).
    ///
    /// The draw of a task is a pure function of the seed and its id, whatever other tasks there are. With X and Y of
    /// the Gamma laws of a' and b', X / (X + Y) follows the Beta law; they come from Marsaglia and Tsang's rejection
    /// (2000). Cost: about six hashes a task.
    #[must_use]
    pub fn thompson(&self, seed: u64) -> Vec<f64> {
        self.ids().zip(self.parameters()).map(|(id, (a, b))| TaskUniforms::of(seed, id).beta(a, b)).collect()
    }

    /// Return the posterior as bytes, the same on every machine.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Writer::new(SketchKind::Beta);
        bytes.float(self.prior.0);
        bytes.float(self.prior.1);
        for task in &self.tasks {
            for number in [task.id.cast_unsigned(), task.successes, task.failures] {
                bytes.number(number);
            }
        }
        bytes.finish()
    }

    /// Return the posterior that was written as these bytes.
    ///
    /// # Errors
    /// [`Error::Bytes`] for anything else; [`Error::Range`] for a prior that is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut bytes = Reader::open(SketchKind::Beta, bytes)?;
        let mut state = Self::new(bytes.float()?, bytes.float()?)?;
        while !bytes.is_empty() {
            let id = bytes.number()?.cast_signed();
            state.tasks.push(Task { id, successes: bytes.number()?, failures: bytes.number()? });
        }
        bytes.require(state.tasks.is_sorted_by(|a, b| a.id < b.id), "its ids do not ascend")?;
        Ok(state)
    }
}

/// Return the point below which Beta(a, b) has this probability.
fn quantile(a: f64, b: f64, probability: f64) -> f64 {
    if probability <= 0.0 || probability >= 1.0 {
        return probability;
    }
    let log_beta = a.ln_beta(b);
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    loop {
        let middle = low.midpoint(high);
        if middle <= low || middle >= high {
            return middle;
        }
        if middle.inc_beta(a, b, log_beta) < probability { low = middle } else { high = middle }
    }
}

/// The uniforms of one task.
struct TaskUniforms {
    seed: u64,
    count: usize,
}

impl TaskUniforms {
    fn of(seed: u64, id: i64) -> Self {
        let key = Key { id: u128::from(id.cast_unsigned()), ordinal: 0 };
        Self { seed: uniform(seed, key, Purpose::Stream).to_bits(), count: 0 }
    }

    fn next(&mut self) -> f64 {
        self.count += 1;
        uniform(self.seed, Key::of_index(self.count), Purpose::Stream)
    }

    /// Return a standard normal number (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let (radius, turn) = (self.next(), self.next());
        (-2.0 * libm::log(radius)).sqrt() * libm::cos(std::f64::consts::TAU * turn)
    }

    /// Return the log of a Gamma number. A shape below 1 is raised by 1 and paid for with a power of a uniform.
    fn log_gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.log_gamma(shape + 1.0) + libm::log(self.next()) / shape;
        }
        let scale = shape - 1.0 / 3.0;
        let slope = 1.0 / (9.0 * scale).sqrt();
        loop {
            let (normal, uniform) = (self.normal(), self.next());
            let root = 1.0 + slope * normal;
            let cube = root * root * root;
            let bound = 0.5 * normal * normal + scale * (1.0 - cube + libm::log(cube.max(f64::MIN_POSITIVE)));
            if cube > 0.0 && libm::log(uniform) < bound {
                return libm::log(scale * cube);
            }
        }
    }

    fn beta(&mut self, a: f64, b: f64) -> f64 {
        let (x, y) = (self.log_gamma(a), self.log_gamma(b));
        crate::numeric::sum::sigmoid(x - y)
    }
}
