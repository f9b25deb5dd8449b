//! Log-sum-exp and moments, value by value.

use karl_core::sketch::LogSumExp;
use karl_core::sketch::Moments;
use serde_json::Value;

use super::{CLOSE, assert_close, each, golden, number, numbers};

/// The logarithm of what an online softmax holds: its largest value, and a sum relative to it.
fn log(state: &Value) -> f64 {
    number(&state[0]) + libm::log(number(&state[1]))
}

fn seen(values: &[f64]) -> LogSumExp {
    let mut partition = LogSumExp::default();
    partition.update(values, 1).unwrap();
    partition
}

#[test]
fn log_sum_exp_follows_the_traces() {
    for case in each(&golden("streaming_stats"), "online_lse") {
        let mut state = LogSumExp::default();
        for (value, wanted) in numbers(&case["x"]).into_iter().zip(each(case, "trace_m_s")) {
            state.update(&[value], 1).unwrap();
            assert_close(state.log_sum_exp(), log(wanted), CLOSE, "trace");
        }
        assert_close(state.log_sum_exp(), number(&case["lse"]), CLOSE, "value");
    }
}

#[test]
fn log_sum_exp_merges_as_published() {
    for case in each(&golden("streaming_stats"), "lse_merge") {
        let mut merged = seen(&[log(&case["a"])]);
        merged.merge(&seen(&[log(&case["b"])])).unwrap();
        assert_close(merged.log_sum_exp(), log(&case["merged"]), CLOSE, "merged");
    }
}

fn moments(values: &[f64]) -> Moments {
    let mut moments = Moments::default();
    moments.update(values).unwrap();
    moments
}

#[test]
fn moments_follow_the_trace() {
    let case = &golden("streaming_stats")["welford"];
    let values = numbers(&case["x"]);
    for (seen, wanted) in (1..).zip(each(case, "trace_n_mean_M2")) {
        let found = moments(&values[..seen]);
        assert_eq!(Some(found.count), wanted[0].as_u64());
        assert_close(found.mean(), number(&wanted[1]), CLOSE, "mean");
        assert_close(found.variance(0) * found.count as f64, number(&wanted[2]), CLOSE, "m2");
    }
    for (ddof, name) in [(0, "std_ddof0"), (1, "std_ddof1")] {
        assert_close(moments(&values).variance(ddof).sqrt(), number(&case[name]), CLOSE, name);
    }
}

#[test]
fn moments_merge_as_published() {
    let case = &golden("streaming_stats")["welford"];
    let values = numbers(&case["x"]);
    let (mut merged, mut empty) = (moments(&values[..2]), Moments::default());
    empty.merge(&merged).unwrap();
    merged.merge(&moments(&values[2..])).unwrap();
    for (found, wanted) in [(empty, &case["empty_merge"]), (merged, &case["chan_merge_2_3"]["merged"])] {
        assert_eq!(Some(found.count), wanted[0].as_u64());
        assert_close(found.mean(), number(&wanted[1]), CLOSE, "mean");
        assert_close(found.variance(0) * found.count as f64, number(&wanted[2]), CLOSE, "m2");
    }
}

#[test]
fn no_digits_are_lost_far_from_zero() {
    let case = &golden("streaming_stats")["catastrophic"];
    let found = moments(&numbers(&case["x"])).variance(0);
    assert_close(found, number(&case["exact"]), 0.0, "variance");
}
