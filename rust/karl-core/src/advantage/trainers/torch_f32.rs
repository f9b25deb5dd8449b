//! Statistics of float32 rewards as torch has them on x86-64: its order of summation, and where it rounds.
//!
//! torch adds vectors of eight, whatever the processor has, in four interleaved ways, and each way in four levels, so that
//! a long column is a tree of short sums. That order is the whole of the difference between a mean of equal rewards and
//! the rewards: eight of 0.3 have a mean one bit away. Columns of 32,768 and more are split over threads by torch itself,
//! where this is not.

/// The elements of a vector.
const LANES: usize = 8;
/// The sums that are interleaved.
const WAYS: usize = 4;
/// The levels of a sum, each of what the one below it has carried.
const LEVELS: usize = 4;
/// The same, of the digits of a count.
const DIGITS: u32 = 4;
/// The least a level adds before it carries, as a power of two.
const POWER: u32 = 4;

/// `torch.sum`.
fn sum(values: &[f32]) -> f32 {
    let (vectors, rest) = values.as_chunks::<LANES>();
    if vectors.is_empty() {
        let [total] = interleaved(values.as_chunks::<1>().0);
        return total;
    }
    rest.iter().chain(&interleaved(vectors)).fold(0.0, |total, value| total + value)
}

/// Four ways, then what is left over, which the first takes.
fn interleaved<const N: usize>(vectors: &[[f32; N]]) -> [f32; N] {
    let (quads, rest) = vectors.as_chunks::<WAYS>();
    let [mut first, others @ ..] = levelled(quads);
    rest.iter().chain(&others).for_each(|vector| add(&mut first, vector));
    first
}

/// Each way for itself: a level that is full goes to the next, and all of them are added up at the end.
fn levelled<const N: usize>(quads: &[[[f32; N]; WAYS]]) -> [[f32; N]; WAYS] {
    let depth = usize::BITS - quads.len().saturating_sub(1).leading_zeros();
    let power = POWER.max(depth / DIGITS);
    let mut levels = [[[0.0; N]; WAYS]; LEVELS];
    let pieces = quads.chunks_exact(1 << power);
    let rest = pieces.remainder();
    for (number, piece) in (1usize..).zip(pieces) {
        for quad in piece {
            add_ways(&mut levels[0], quad);
        }
        carry(&mut levels, number, power);
    }
    for quad in rest {
        add_ways(&mut levels[0], quad);
    }
    let [mut total, above @ ..] = levels;
    for level in &above {
        add_ways(&mut total, level);
    }
    total
}

/// After the piece of this number: a level is full where the number has no digit left below it.
fn carry<const N: usize>(levels: &mut [[[f32; N]; WAYS]; LEVELS], number: usize, power: u32) {
    let mask = (1 << power) - 1;
    for (level, shift) in (1..LEVELS).zip((0..).step_by(power as usize)) {
        let below = std::mem::replace(&mut levels[level - 1], [[0.0; N]; WAYS]);
        add_ways(&mut levels[level], &below);
        if number & (mask << shift) != 0 {
            return;
        }
    }
}

fn add_ways<const N: usize>(to: &mut [[f32; N]; WAYS], quad: &[[f32; N]; WAYS]) {
    to.iter_mut().zip(quad).for_each(|(to, vector)| add(to, vector));
}

fn add<const N: usize>(to: &mut [f32; N], vector: &[f32; N]) {
    to.iter_mut().zip(vector).for_each(|(to, value)| *to += value);
}

/// `torch.mean`.
pub(in crate::advantage) fn mean(values: &[f32]) -> f32 {
    sum(values) / values.len() as f32
}

/// `torch.nanmean`: the mean of those that are there.
pub(in crate::advantage) fn nan_mean(values: &[f32]) -> f32 {
    let present: Vec<f32> = values.iter().map(|value| if value.is_nan() { 0.0 } else { *value }).collect();
    sum(&present) / count(values) as f32
}

fn count(values: &[f32]) -> usize {
    values.iter().filter(|value| !value.is_nan()).count()
}

/// `torch.std` of a tensor as a whole: squares about the float32 mean, in f64.
pub(in crate::advantage) fn deviation(values: &[f32]) -> f32 {
    let mean = f64::from(mean(values));
    let squares = values.iter().fold(0.0, |sum, &value| sum + (f64::from(value) - mean).powi(2));
    root(squares, values.len())
}

/// `torch.std` of each row of a table: a running mean and squares, in f64. Of equal rewards it is 0.
pub(in crate::advantage) fn deviation_of_row(values: &[f32]) -> f32 {
    let (mut mean, mut squares) = (0.0, 0.0);
    for (seen, &value) in (1u32..).zip(values) {
        let apart = f64::from(value) - mean;
        mean += apart / f64::from(seen);
        squares += apart * (f64::from(value) - mean);
    }
    root(squares, values.len())
}

#[allow(clippy::cast_possible_truncation, reason = "torch rounds here")]
fn root(squares: f64, count: usize) -> f32 {
    (squares / (count as f64 - 1.0)).sqrt() as f32
}

/// TRL's `nanstd`: float32 throughout, and Bessel's correction as a factor.
pub(in crate::advantage) fn nan_deviation(values: &[f32]) -> f32 {
    let mean = nan_mean(values);
    let squares: Vec<f32> = values.iter().map(|value| (value - mean) * (value - mean)).collect();
    let count = count(values) as f32;
    (nan_mean(&squares) * (count / (count - 1.0))).sqrt()
}
