//! The numerics: scores, keys, draws, log-sum-exp and targets, with naive forms beside them.
#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up has failed")]

use divan::{Bencher, counter::ItemsCount};
use karl_bench::{counted, groups, keys, rewards};
use karl_core::Keys;
use karl_core::rng::id128;
use karl_core::sample::{Ranking, gumbel};
use karl_core::target::{Temperature, boltzmann};
use karl_core::{Scopes, advantage, logsumexp};

const ROWS: usize = 100_000;
const DRAWN: usize = 1_000;

fn main() {
    divan::main();
}

fn bench<T>(bencher: Bencher, work: impl Fn() -> T + Sync) {
    bencher.counter(ItemsCount::new(ROWS)).bench(|| counted(&work));
}

#[divan::bench(args = [false, true])]
fn zscore(bencher: Bencher, shuffled: bool) {
    let (rewards, groups) = (rewards(ROWS), groups(ROWS, shuffled).unwrap());
    bench(bencher, || advantage::zscore(&rewards, &groups, 1, 1e-6, 1).unwrap());
}

/// Two passes over arrays by code: what one writes by hand, without a word on missing or constant rewards.
#[divan::bench(args = [false, true])]
fn zscore_naive(bencher: Bencher, shuffled: bool) {
    let (rewards, groups) = (rewards(ROWS), groups(ROWS, shuffled).unwrap());
    let codes: Vec<usize> = (0..ROWS).filter_map(|row| groups.code(row)).collect();
    bench(bencher, || {
        let mut sums = vec![(0.0, 0.0, 0.0); groups.len()];
        for (&code, &reward) in codes.iter().zip(&rewards) {
            let (count, sum, squares) = &mut sums[code];
            (*count, *sum, *squares) = (*count + 1.0, *sum + reward, *squares + reward * reward);
        }
        let score = |(&code, &reward): (&usize, &f64)| {
            let (count, sum, squares): (f64, f64, f64) = sums[code];
            (reward - sum / count) / (((squares - sum * sum / count) / (count - 1.0)).sqrt() + 1e-6)
        };
        codes.iter().zip(&rewards).map(score).collect::<Vec<f64>>()
    });
}

#[divan::bench]
fn gumbel_keys(bencher: Bencher) {
    let (logs, keys) = (rewards(ROWS), Keys::given(keys(ROWS)));
    bench(bencher, || gumbel::keys(&logs, &keys, 7).unwrap());
}

#[divan::bench]
fn top(bencher: Bencher) {
    let keys = rewards(ROWS);
    bench(bencher, || Ranking::new(keys.clone()).unwrap().take(DRAWN));
}

#[divan::bench]
fn top_naive(bencher: Bencher) {
    let keys = rewards(ROWS);
    bench(bencher, || {
        let mut rows: Vec<usize> = (0..ROWS).collect();
        rows.sort_by(|&a, &b| keys[b].total_cmp(&keys[a]));
        rows.truncate(DRAWN);
        rows
    });
}

#[divan::bench]
fn log_sum_exp(bencher: Bencher) {
    let values = rewards(ROWS);
    bench(bencher, || logsumexp::log_sum_exp(&values, 1).unwrap());
}

/// Overflows where the values are large, which these are not.
#[divan::bench]
#[expect(clippy::disallowed_methods, reason = "the platform's functions are what one writes by hand")]
fn log_sum_exp_naive(bencher: Bencher) {
    let values = rewards(ROWS);
    bench(bencher, || values.iter().map(|value| value.exp()).sum::<f64>().ln());
}

#[divan::bench]
fn boltzmann_by_ess(bencher: Bencher) {
    let scores = rewards(ROWS);
    bench(bencher, || boltzmann(&scores, Scopes::Whole, Temperature::Ess(0.5), 1).unwrap());
}

#[divan::bench]
fn boltzmann_given(bencher: Bencher) {
    let scores = rewards(ROWS);
    bench(bencher, || boltzmann(&scores, Scopes::Whole, Temperature::Inverse(15.0), 1).unwrap());
}

#[divan::bench]
fn id_hash(bencher: Bencher) {
    let ids: Vec<String> = (0..ROWS).map(|row| format!("run-{row:08}")).collect();
    bench(bencher, || ids.iter().fold(0, |all, id| all ^ id128(id.as_bytes())));
}
