//! Times every stage from columns to chosen rows on made-up columns: `cargo run --release --example selection`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement, run by hand"
)]

use std::time::Instant;

use karl_core::rng::{Key, uniform};
use karl_core::{
    Boltzmann, Groups, Keys, Population, Purpose, Rows, Rules, Sampler, Scopes, Score, SelectionSettings,
    Temperature, select,
};

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{:>8.1} ms  {what}", start.elapsed().as_secs_f64() * 1e3);
    result
}

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |threads| threads.parse().unwrap());
    let (rows, groups) = (3_000_000_usize, 375_000_u32);
    let number = |row: usize, purpose| uniform(1, Key::of_index(row), purpose);
    let rewards: Vec<f64> = (0..rows).map(|row| (number(row, Purpose::Draw) * 64.0).floor() / 64.0).collect();
    let codes: Vec<u32> = (0..groups).flat_map(|group| [group; 8]).collect();
    let place = |row: usize| row * 1_234_567 % rows;
    let codes: Vec<u32> = (0..rows).map(|row| codes[place(row)]).collect();
    let mut ids: Vec<u128> = (0..rows as u64)
        .map(|row| u128::from(row.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(row))
        .collect();
    ids.sort_unstable();
    let keys = Keys::sorted(ids);
    let settings = SelectionSettings {
        shaping: None,
        score: Score::ZScore { ddof: 0, eps: 1e-6 },
        rules: Rules::default(),
        temperature: Temperature::Inverse(2.0),
        sampler: Sampler::Gumbel,
        seed: 7,
        threads,
    };
    timed("all of it", || {
        let groups = timed("groups", || Groups::from_codes(&codes[..], groups as usize).unwrap());
        let population = Population {
            keys: &keys,
            rewards: &rewards,
            groups: &groups,
            scopes: Scopes::Whole,
            fingerprints: None,
            digests: None,
        };
        timed("scores", || settings.score.apply(&rewards, &groups, threads).unwrap());
        let selection = timed("select, with scores", || select(&population, &settings).unwrap());
        timed("expected reward", || {
            selection.target.expected(&selection.rows(&population), &rewards, threads)
        });
        let mut ranking = selection.ranking(&population, &settings).unwrap();
        timed("ranking, k = 30,000", || ranking.reach(30_001).len());
        for sampler in [Sampler::Reservoir, Sampler::All] {
            let settings = SelectionSettings { sampler, ..settings };
            let mut ranking = selection.ranking(&population, &settings).unwrap();
            timed(sampler.name(), || ranking.reach(30_001).len());
        }
        for sampler in [Sampler::Systematic, Sampler::Multinomial] {
            let settings = SelectionSettings { sampler, ..settings };
            timed(sampler.name(), || selection.copies(&population, &settings, 30_000).unwrap());
        }
    });
    let many: Vec<f64> = (0..10_000_000).map(|row| number(row, Purpose::Draw)).collect();
    for threads in [1, 2] {
        timed(&format!("ESS of 10^7 distinct scores, {threads} threads"), || {
            Boltzmann::fit(Rows::all(&many, Scopes::Whole), Temperature::Ess(0.5), threads).unwrap()
        });
    }
    let ids: Vec<i64> = (0..10_000_000).map(|row| row / 8).collect();
    timed("groups from 10^7 ids", || Groups::from_ids(&ids).unwrap());
}
