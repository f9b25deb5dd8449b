//! Log-sum-exp and moments, value by value.

use karl_core::numeric::{Moments, mean_and_variance};
use karl_core::partition::Partition;
use serde_json::Value;

use super::{CLOSE, assert_close, each, golden, number, numbers};

/// The logarithm of what an online softmax holds: its largest value, and a sum relative to it.
fn log(state: &Value) -> f64 {
    number(&state[0]) + libm::log(number(&state[1]))
}

fn seen(values: &[f64]) -> Partition {
    let mut partition = Partition::default();
    partition.update(values, 1).unwrap();
    partition
}

#[test]
fn log_sum_exp_follows_the_traces() {
    for case in each(&golden("streaming_stats"), "online_lse") {
        let mut state = Partition::default();
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

fn assert_moments(moments: Moments, wanted: &Value) {
    assert_eq!(Some(moments.count), wanted[0].as_u64());
    assert_close(moments.mean, number(&wanted[1]), CLOSE, "mean");
    assert_close(moments.m2, number(&wanted[2]), CLOSE, "m2");
}

#[test]
fn moments_follow_the_trace_and_merge() {
    let case = &golden("streaming_stats")["welford"];
    let mut moments = Moments::default();
    for (value, wanted) in numbers(&case["x"]).into_iter().zip(each(case, "trace_n_mean_M2")) {
        moments.push(value);
        assert_moments(moments, wanted);
    }
    for (ddof, name) in [(0, "std_ddof0"), (1, "std_ddof1")] {
        assert_close(moments.variance(ddof).unwrap().sqrt(), number(&case[name]), CLOSE, name);
    }
    let state = |value: &Value| Moments {
        count: value[0].as_u64().unwrap(),
        mean: number(&value[1]),
        m2: number(&value[2]),
    };
    let merge = &case["chan_merge_2_3"];
    assert_moments(state(&merge["a"]).merge(state(&merge["b"])), &merge["merged"]);
    assert_moments(state(&merge["a"]).merge(Moments::default()), &case["empty_merge"]);
}

#[test]
fn no_digits_are_lost_far_from_zero() {
    let case = &golden("streaming_stats")["catastrophic"];
    let values = numbers(&case["x"]);
    let mut moments = Moments::default();
    for &value in &values {
        moments.push(value);
    }
    assert_close(moments.variance(0).unwrap(), number(&case["exact"]), CLOSE, "streamed");
    assert_close(
        mean_and_variance(values.into_iter(), 0).unwrap().1,
        number(&case["exact"]),
        0.0,
        "two-pass",
    );
}
