//! Traces worked out elsewhere: `tests/golden/sampling.json`, with its maker named inside.

use karl_core::sample::a_expj::weighted_reservoir;
use karl_core::sample::algorithm_l::{Jumps, reservoir};
use karl_core::sample::inclusion::{inclusion, inclusion_while};
use karl_core::sample::pps::threshold;
use karl_core::sample::priority::priority;
use karl_core::sample::var_opt;
use karl_core::sketch::VarOptSketch;
use karl_core::{Error, Keys, Ranking};
use serde_json::Value;

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

/// What is sure is not integrated: neither size nor spread makes a wrong sum, and none takes long.
#[test]
fn inclusion_adds_up_however_far_rows_are_apart() {
    let far = inclusion(&[1e308, -1e308, 0.0], 2, 1).unwrap();
    assert_eq!(far, [1.0, 0.0, 1.0]);
    let pair = inclusion(&[0.0, 1e6, 2.0, -1e6], 2, 1).unwrap();
    let share = 1.0 / (1.0 + libm::exp(2.0));
    assert!((pair[0] - share).abs() < 1e-12 && (pair[0] + pair[2] - 1.0).abs() < 1e-12, "{pair:?}");
    let chain: Vec<f64> = (0..1000).map(|row| f64::from(row) * -30.0).collect();
    let found = inclusion(&chain, 400, 2).unwrap();
    assert!((found[400] - libm::exp(-30.0)).abs() < 1e-15, "{}", found[400]);
    assert!(found[..399].iter().all(|&sure| sure > 1.0 - 1e-12));
    let alike = inclusion(&vec![7.0; 2000], 50, 2).unwrap();
    assert!(alike.iter().all(|&found| (found - 0.025).abs() < 1e-12), "{}", alike[0]);
}

/// The same rows shifted, in another order and by another number of threads.
#[test]
fn inclusion_does_not_depend_on_order_or_threads() {
    let logs: Vec<f64> = (0..300).map(|row| f64::from(row * 37 % 300) * 0.125).collect();
    let backwards: Vec<f64> = logs.iter().rev().map(|log| log + 1024.0).collect();
    for k in [1, 7, 150, 299] {
        let found = inclusion(&logs, k, 1).unwrap();
        let mut other = inclusion(&backwards, k, 3).unwrap();
        other.reverse();
        assert_eq!(found, other);
    }
}

#[test]
fn inclusion_stops_when_asked() {
    assert_eq!(inclusion_while(&vec![0.0; 5000], 2000, 2, || false), Ok(None));
}

#[test]
fn weights_whose_total_overflows_are_refused() {
    let (weights, keys) = ([1e308; 3], Keys::of_indices(3));
    let refused = |found: Result<(), Error>| {
        let Err(Error::NotFinite { what: "total of weights", index, .. }) = found else {
            panic!("{found:?}")
        };
        index
    };
    assert_eq!(refused(threshold(&weights, 2).map(drop)), 1);
    assert_eq!(refused(var_opt::draw(&weights, 2, &keys, 7).map(drop)), 1);
    let mut state = VarOptSketch::new(2, 7).unwrap();
    state.update(&Keys::of_indices(1), &weights[..1]).unwrap();
    let (before, other) = (state.to_bytes(), state.clone());
    assert_eq!(refused(state.update(&keys, &[1.0, 1e307, 1e308])), 2);
    assert_eq!(refused(state.merge(&other)), 0);
    assert_eq!(state.to_bytes(), before);
}
