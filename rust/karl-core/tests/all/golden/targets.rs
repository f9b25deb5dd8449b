//! Partitions and tempered weights.

use karl_core::logsumexp::{log_mean_exp, log_sum_exp};
use karl_core::target::temper;
use karl_core::{Rows, Scopes, Score, Temperature, boltzmann};
use serde_json::Value;

use super::{CLOSE, assert_all_close, assert_close, each, golden, number, numbers, whole};

#[test]
fn the_soft_value_is_not_the_accuracy() {
    for case in each(&golden("partition_function"), "soft_value_vs_accuracy") {
        let (right, temperature) = (case["correct"].as_u64().unwrap(), number(&case["beta_temperature"]));
        let logs: Vec<f64> = (0..8).map(|i| if i < right { 1.0 / temperature } else { 0.0 }).collect();
        let got = log_mean_exp(&logs, 1).unwrap();
        let wanted = number(&case["outputs"]["log_mean_exp(r/beta)"]);
        assert!((got - wanted).abs() <= CLOSE * wanted.max(1.0), "{got} {wanted}");
    }
}

#[test]
fn the_target_is_the_softmax_of_flowrl() {
    let name = "beta_multiplied_softmax(FlowRL convention: exp(beta*r))";
    for case in each(&golden("partition_function"), name) {
        let (b, rewards) = (number(&case["beta_multiplier"]), numbers(&case["rewards"]));
        let target = boltzmann(&rewards, Scopes::Whole, Temperature::Inverse(b), 2).unwrap();
        let weights: Vec<f64> = target.log_weights.iter().map(|&log| libm::exp(log)).collect();
        assert_all_close(&weights, &numbers(&case["p"]), CLOSE, "p");
        assert_close(target.log_z[0], number(&case["logZ_sum"]), CLOSE, "log z");
        assert_close(target.reached_ess, number(&case["ess"]), CLOSE, "ess");
        let scaled: Vec<f64> = rewards.iter().map(|reward| b * reward).collect();
        assert_close(log_sum_exp(&scaled, 1).unwrap(), number(&case["logZ_sum"]), CLOSE, "log sum exp");
        assert_close(log_mean_exp(&scaled, 1).unwrap(), number(&case["logZ_mean"]), CLOSE, "log mean exp");
    }
}

/// Seed 000's rewards, each at the centre of its bucket.
fn seed_000(case: &Value) -> Vec<f64> {
    let buckets = case["rewards_by_bucket_centre"].as_object().unwrap();
    let bucket = |(reward, count): (&String, &Value)| {
        std::iter::repeat_n(reward.parse().unwrap(), usize::try_from(count.as_u64().unwrap()).unwrap())
    };
    buckets.iter().flat_map(bucket).collect()
}

#[test]
fn seed_000_tempers_as_computed() {
    let case = &golden("seed_checks")["values"]["seed000_bucket_centres"];
    let rewards = seed_000(case);
    for wanted in each(case, "tempered") {
        let got =
            temper(Rows::all(&rewards, Scopes::Whole), &rewards, &[number(&wanted["beta"])], 2).unwrap()[0];
        assert_close(got.ess, number(&wanted["ess"]), CLOSE, "ess");
        assert_close(got.share, number(&wanted["ess_over_n"]), CLOSE, "share");
        assert_close(got.top_share * 7.0, number(&wanted["p_top7(bucket .8)"]), CLOSE, "top 7");
        assert_close(got.expected_reward, number(&wanted["resampled_mean_reward"]), CLOSE, "mean reward");
    }
}

#[test]
fn seed_000_tempers_as_computed_on_scores() {
    let case = &golden("seed_checks")["values"]["seed000_bucket_centres"];
    let (rewards, whole) = (seed_000(case), whole(111));
    let scores = Score::ZScore { ddof: 0, eps: 0.0 }.apply(&rewards, &whole, 2).unwrap();
    for wanted in each(case, "tempered_zscore") {
        let got =
            temper(Rows::all(&scores, &whole), &rewards, &[number(&wanted["beta_on_zscore"])], 2).unwrap()[0];
        assert_close(got.share, number(&wanted["ess_over_n"]), CLOSE, "share");
        assert_close(got.top_share * 7.0, number(&wanted["top_weight_share_top7"]), CLOSE, "top 7");
    }
}
