//! Traces worked out elsewhere: `tests/golden/sampling.json`, with its maker named inside.

use karl_core::sample::algorithm_l::{Jumps, reservoir};
use karl_core::sample::exp_jumps::weighted_reservoir;
use karl_core::sample::inclusion::inclusion;
use karl_core::sample::priority::priority;
use serde_json::Value;

use karl_core::Ranking;

fn case(name: &str) -> Value {
    let path = format!("{}/../../tests/golden/sampling.json", env!("CARGO_MANIFEST_DIR"));
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    all[name].clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn fed(values: Vec<f64>) -> impl FnMut() -> f64 {
    let mut values = values.into_iter();
    move || values.next().unwrap()
}

#[test]
fn algorithm_l_takes_the_steps_of_the_trace() {
    let case = case("algorithm_L_trace");
    let (uniforms, k) = (numbers(&case["uniforms"]), 3);
    let mut at = 2;
    for (wanted, jump) in case["trace"].as_array().unwrap().iter().zip(Jumps::new(k, fed(uniforms.clone()))) {
        at += jump.skip + 1;
        assert_eq!((jump.skip, at), (wanted["skip"].as_u64().unwrap(), wanted["i"].as_u64().unwrap()));
        if let Some(slot) = wanted["slot"].as_u64() {
            assert_eq!(jump.slot as u64, slot);
        }
    }
    let drawn = reservoir(0..case["n"].as_u64().unwrap(), k, fed(uniforms));
    assert_eq!(
        drawn,
        case["reservoir"].as_array().unwrap().iter().map(|row| row.as_u64().unwrap()).collect::<Vec<_>>()
    );
}

#[test]
fn exponential_jumps_select_what_the_trace_selects() {
    let case = case("a_expj_trace");
    let weights = numbers(&case["w"]);
    let items = weights.into_iter().enumerate();
    let mut drawn = weighted_reservoir(items, 3, fed(numbers(&case["uniforms_in_consumption_order"])));
    drawn.sort_unstable();
    assert_eq!(drawn, [3, 7, 8]);
    // The keys of the trace give the order: ln keys -0.1324, -0.1967 and -0.2067.
    let case = super::golden::case("a_expj_trace");
    let items = numbers(&case["w"]).into_iter().enumerate();
    let drawn = weighted_reservoir(items, 3, fed(numbers(&case["uniforms_in_consumption_order"])));
    assert_eq!(drawn, [7, 8, 3]);
}

#[test]
fn priorities_select_and_estimate_as_published() {
    let case = case("priority_sampling");
    let (weights, uniforms) = (numbers(&case["w"]), numbers(&case["u"]));
    let ranks: Vec<f64> = weights.iter().zip(&uniforms).map(|(&w, &u)| priority(w, u)).collect();
    assert_eq!(ranks, numbers(&case["priority w/u"]));
    let mut ranking = Ranking::new(ranks).unwrap();
    assert_eq!((ranking.take(2), ranking.threshold()), (vec![4, 1], case["tau=(k+1)-th priority"].as_f64()));
}

#[test]
fn inclusion_is_that_of_plackett_luce() {
    for case in case("plackett_luce_without_replacement").as_array().unwrap() {
        let k = usize::try_from(case["k"].as_u64().unwrap()).unwrap();
        let found = inclusion(&super::logs(&numbers(&case["w"])), k, 2).unwrap();
        for (found, wanted) in found.into_iter().zip(numbers(&case["inclusion"])) {
            assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
        }
    }
}
