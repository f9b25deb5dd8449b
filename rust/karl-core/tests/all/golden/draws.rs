//! Plackett-Luce, the keys that draw from it, and the uniform numbers under the keys.

use karl_core::logsumexp::ess;
use karl_core::rng::gumbel;
use karl_core::{Ranking, Scopes, Temperature, boltzmann};

use super::{CLOSE, assert_all_close, assert_close, each, golden, number, numbers, order, rows};
use crate::naive;

#[test]
fn the_twin_of_the_draw_has_the_exact_probabilities() {
    for case in each(&golden("sampling"), "plackett_luce_without_replacement") {
        let (weights, k) = (numbers(&case["w"]), usize::try_from(case["k"].as_u64().unwrap()).unwrap());
        assert_all_close(&naive::inclusion(&weights, k), &numbers(&case["inclusion"]), CLOSE, "inclusion");
        for (drawn, probability) in naive::ordered_draws(&weights, k) {
            let name = drawn.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            assert_close(probability, number(&case["ordered_probabilities"][&name]), CLOSE, &name);
        }
    }
}

#[test]
fn gumbel_keys_order_as_the_equivalent_keys() {
    let case = &golden("sampling")["key_equivalence"];
    let (uniforms, weights) = (numbers(&case["uniform"]), numbers(&case["w"]));
    let keys: Vec<f64> = weights.iter().zip(&uniforms).map(|(&w, &u)| libm::log(w) + gumbel(u)).collect();
    assert_all_close(&keys, &numbers(&case["gumbel_key_ln(w)-ln(E)"]), CLOSE, "key");
    assert_eq!(order(keys), rows(&case["order_all_three(descending key)"]));
}

#[test]
fn low_temperatures_neither_overflow_nor_lose_the_order() {
    for case in each(&golden("sampling"), "low_temperature_log_keys") {
        let (b, scores) = (number(&case["beta"]), numbers(&case["r"]));
        let gumbels: Vec<f64> = numbers(&case["u"]).into_iter().map(gumbel).collect();
        assert_all_close(&gumbels, &numbers(&case["gumbel"]), CLOSE, "gumbel");
        let target = boltzmann(&scores, Scopes::Whole, Temperature::Inverse(b), 2).unwrap();
        let weights: Vec<f64> = target.log_weights.iter().map(|&log| libm::exp(log)).collect();
        assert_all_close(&weights, &numbers(&case["p_log_space"]), CLOSE, "p");
        let keys: Vec<f64> = target.log_weights.iter().zip(&gumbels).map(|(log, g)| log + g).collect();
        let unnormalised: Vec<f64> = keys.iter().map(|key| key + target.log_z[0]).collect();
        assert_all_close(&unnormalised, &numbers(&case["log_key"]), CLOSE, "log key");
        assert_eq!(order(keys), rows(&case["order"]));
    }
}

#[test]
fn the_ess_of_known_weights() {
    for case in each(&golden("sampling"), "ess") {
        let logs: Vec<f64> = numbers(&case["w"]).into_iter().map(libm::log).collect();
        assert_close(ess(&logs, 1).unwrap(), number(&case["ess"]), CLOSE, "ess");
    }
}

#[test]
fn uniforms_of_52_bits_stay_below_one_and_those_of_53_do_not() {
    let case = &golden("sampling")["uniform_generation_pitfalls"];
    let top = |bits: i32| (2f64.powi(bits) - 1.0 + 0.5) * 2f64.powi(-bits);
    assert_close(top(53), number(&case["(k+0.5)*2^-53 at k=2^53-1"]), 0.0, "53 bits round to 1");
    assert_close(top(52), number(&case["(k+0.5)*2^-52 at max"]), 0.0, "52 bits");
    assert_close(gumbel(top(52)), number(&case["gumbel_max_52bit"]), CLOSE, "largest");
    assert_close(gumbel(0.5 * f64::EPSILON), number(&case["gumbel_min_52bit"]), CLOSE, "smallest");
}

#[test]
fn shards_merge_to_the_draw_of_the_whole() {
    let case = &golden("sampling")["shard_merge_A_Res"];
    let (uniforms, weights) = (numbers(&case["u"]), numbers(&case["w"]));
    let keys: Vec<f64> = weights.iter().zip(&uniforms).map(|(&w, &u)| libm::log(w) + gumbel(u)).collect();
    let best = |wanted: &dyn Fn(u32) -> bool| {
        let mut shard = keys.clone();
        (0..8).filter(|&row| !wanted(row)).for_each(|row| shard[row as usize] = f64::NEG_INFINITY);
        let mut drawn = Ranking::new(shard).unwrap().take(3);
        drawn.sort_unstable();
        drawn
    };
    let (left, right) = (best(&|row| row < 4), best(&|row| row >= 4));
    let merged = best(&|row| left.contains(&row) || right.contains(&row));
    let sorted = |name: &str| {
        let mut wanted = rows(&case[name]);
        wanted.sort_unstable();
        wanted
    };
    assert_eq!((left, right), (sorted("shard1_top3"), sorted("shard2_top3")));
    assert_eq!((merged, best(&|_| true)), (sorted("merged"), sorted("full_top3")));
}
