//! Group advantages, as the trainers give them.

use karl_core::Score;

use super::{CLOSE, NEAR_EQUAL, assert_all_close, assert_close, each, golden, number, numbers, whole};
use crate::naive::mean_and_variance;

/// Which score each column of `group_advantages.json` is.
const ADVANTAGES: [(&str, Score); 10] = [
    ("ddof1_eps1e-4_TRL", Score::ZScore { ddof: 1, eps: 1e-4 }),
    ("ddof1_eps1e-6_verl", Score::ZScore { ddof: 1, eps: 1e-6 }),
    ("ddof1_eps1e-9_OpenRLHF", Score::ZScore { ddof: 1, eps: 1e-9 }),
    ("ddof0_eps1e-4_mlxlmlora_flowgrpo", Score::ZScore { ddof: 0, eps: 1e-4 }),
    ("ddof0_eps1e-8_rlsandbox", Score::ZScore { ddof: 0, eps: 1e-8 }),
    ("centre_only_DrGRPO", Score::Centre),
    ("rloo", Score::LeaveOneOut),
    ("EXECUTED_verl_grpo", Score::ZScore { ddof: 1, eps: 1e-6 }),
    ("EXECUTED_verl_grpo_nostd", Score::Centre),
    ("EXECUTED_verl_rloo", Score::LeaveOneOut),
];

#[test]
fn advantages_equal_those_of_the_trainers() {
    let mut compared = 0;
    for case in
        each(&golden("group_advantages"), "cases").iter().filter(|case| case["rewards"][0].is_number())
    {
        let rewards = numbers(&case["rewards"]);
        let tolerance = if case["id"] == "near_equal" { NEAR_EQUAL } else { CLOSE };
        for (name, score) in ADVANTAGES.iter().filter(|(name, _)| case["outputs"][name].is_array()) {
            let got = score.apply(&rewards, &whole(rewards.len()), 2).unwrap();
            if rewards.len() == 1 {
                assert_close(got[0], 0.0, 0.0, "law 8: a group of one, where verl gives the raw reward");
            } else {
                let what = format!("{} {name}", case["id"]);
                assert_all_close(&got, &numbers(&case["outputs"][name]), tolerance, &what);
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 86, "cases compared");
}

#[test]
fn mean_and_deviation_equal_those_of_the_cases() {
    let file = golden("group_advantages");
    for case in each(&file, "cases").iter().filter(|case| case["outputs"]["mean"].is_number()) {
        let rewards: Vec<f64> =
            numbers(&case["rewards"]).into_iter().filter(|reward| !reward.is_nan()).collect();
        for (ddof, name) in [(0, "std_ddof0"), (1, "std_ddof1")] {
            let wanted = &case["outputs"][name];
            if let Some((mean, variance)) = mean_and_variance(&rewards, ddof) {
                assert_close(mean, number(&case["outputs"]["mean"]), CLOSE, "mean");
                assert!(
                    wanted.is_null()
                        || (variance.sqrt() - number(wanted)).abs() <= NEAR_EQUAL * variance.sqrt()
                );
            } else {
                assert!(wanted.is_null(), "undefined, and null in the file");
            }
        }
    }
}

#[test]
fn an_unscorable_rollout_is_left_out_as_in_trl() {
    let file = golden("group_advantages");
    let case = each(&file, "cases").iter().find(|case| case["id"] == "trl_unscorable_nan").unwrap();
    let (rewards, wanted) = (numbers(&case["rewards"]), numbers(&case["outputs"]["adv"]));
    let score = Score::ZScore { ddof: 1, eps: 1e-4 };
    let got = score.apply(&rewards, &whole(rewards.len()), 2).unwrap();
    for row in [0, 1, 3] {
        assert_close(got[row], wanted[row], CLOSE, "present");
    }
    assert!(got[2].is_nan(), "missing stays missing, where TRL gives 0");
}

#[test]
fn binary_rewards_have_a_closed_form() {
    let file = golden("group_advantages");
    let case = each(&file, "cases").iter().find(|case| case["id"] == "closed_form_binary").unwrap();
    for right in [1, 2, 4, 7] {
        let rewards: Vec<f64> = (0..8).map(|i| f64::from(i < right)).collect();
        let wanted = &case["outputs"][format!("G8_c{right}")];
        for (ddof, row, name) in [(0, 0, "Aplus_ddof0"), (0, 7, "Aminus_ddof0"), (1, 0, "Aplus_ddof1")] {
            let score = Score::ZScore { ddof, eps: 0.0 };
            let got = score.apply(&rewards, &whole(rewards.len()), 2).unwrap()[row];
            assert_close(got, number(&wanted[name]), CLOSE, name);
        }
    }
}
