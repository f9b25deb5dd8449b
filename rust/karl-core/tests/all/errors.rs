//! Each way an argument is refused, with its place and its value, and what the refusal says.
#![allow(clippy::panic, reason = "a helper that fails, fails its test")]
#![allow(clippy::float_cmp, reason = "where a test says equal, it means every bit")]

use karl_core::advantage::{Empg, Shrunk, centre, empg, shrunk, zscore};
use karl_core::filter::rollouts::{PenaltyForm, soft_overlong_penalty};
use karl_core::filter::{below_minimum, constant_groups, duplicate, missing_group, missing_reward};
use karl_core::logsumexp::{ess, log_mean_exp, log_sum_exp};
use karl_core::output_order::write_order;
use karl_core::reward::composite;
use karl_core::sample::{cap_per_group, gumbel};
use karl_core::selection::join_log_factors;
use karl_core::split::check_fractions;
use karl_core::target::temper;
use karl_core::{
    Error, Groups, Keys, Offsets, Population, Ranking, Result, Rows, Rules, Sampler, Scopes, Score,
    SelectionSettings, Summary, Temperature, Verdict, Weighted, boltzmann, select,
};

const INF: f64 = f64::INFINITY;

fn whole(rows: usize) -> Groups<'static> {
    Groups::from_codes(vec![0; rows], usize::from(rows > 0)).unwrap()
}

/// Where and what was not finite. NaN is unequal to itself, so values are compared as bits.
fn not_finite<T: std::fmt::Debug>(result: Result<T>) -> (&'static str, usize, u64) {
    match result.unwrap_err() {
        Error::NotFinite { what, index, value } => (what, index, value.to_bits()),
        other => panic!("{other:?}"),
    }
}

fn outside(low: f64, high: f64) -> Error {
    Error::Outside { what: "ages", index: 1, value: -2.0, low, high }
}

#[test]
fn messages_say_what_where_got_and_wanted_in_one_sentence() {
    let cases = [
        (
            Error::NotFinite { what: "reward", index: 3, value: INF },
            "reward at index 3 is inf, wanted a finite number",
        ),
        (Error::Length { what: "keys", got: 2, wanted: 3 }, "keys has length 2, wanted 3"),
        (
            Error::Code { index: 1, code: 9, count: 4 },
            "group code at index 1 is 9, wanted less than 4 or NONE",
        ),
        (Error::Row { index: 2, row: -1, count: 9 }, "row at index 2 is -1, wanted one of 0 to 9 exclusive"),
        (
            Error::Circle { what: "parents", row: 4 },
            "parents at index 4 lead back to it in a circle, wanted a way to a root",
        ),
        (Error::Fraction { what: "ess", value: 1.5 }, "ess is 1.5, wanted a number in (0, 1]"),
        (Error::Negative { what: "eps", value: -1.0 }, "eps is -1, wanted zero or more"),
        (outside(0.0, INF), "ages at index 1 is -2, wanted 0 or more"),
        (outside(-1.0, 1.0), "ages at index 1 is -2, wanted a number in [-1, 1]"),
        (outside(-INF, -3.0), "ages at index 1 is -2, wanted at most -3"),
        (
            Error::Weight { index: 2, value: -1.0 },
            "weight at index 2 is -1, wanted a finite number, zero or more",
        ),
        (Error::Total { what: "split fractions", got: 0.5 }, "split fractions add up to 0.5, wanted 1"),
        (
            Error::NeedsGroups { what: "centre" },
            "score centre is taken within groups, but no row has a group",
        ),
    ];
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn an_infinite_reward_names_its_row_under_every_score() {
    let rewards = [0.0, -INF, 1.0];
    let scores = [Score::Raw, Score::Centre, Score::ZScore { ddof: 0, eps: 1e-6 }, Score::LeaveOneOut];
    for score in scores {
        assert_eq!(not_finite(score.apply(&rewards, &whole(3), 2)), ("rewards", 1, (-INF).to_bits()));
    }
}

#[test]
fn an_advantage_beyond_f64_is_refused_not_returned() {
    let huge = [1e308, 1e308, -1e308];
    assert_eq!(not_finite(zscore(&huge, &whole(3), 0, 1e-6, 2)).0, "advantage");
    assert_eq!(not_finite(centre(&[1.7e308, 1.6e308], &whole(2), 2)).0, "advantage");
    // Differences as small as rounding make no group of different rewards, and their variance would underflow.
    assert_eq!(zscore(&[0.0, 1e-200], &whole(2), 0, 0.0, 2).unwrap(), [0.0, 0.0]);
    assert_eq!(not_finite(zscore(&[0.0, 1.0], &whole(2), 2, 1e-6, 2)).0, "advantage");
}

#[test]
fn a_negative_or_nan_eps_is_refused() {
    let refused = zscore(&[0.0], &whole(1), 0, -1e-6, 2);
    assert_eq!(refused, Err(Error::Negative { what: "eps", value: -1e-6 }));
    assert!(matches!(zscore(&[0.0], &whole(1), 0, f64::NAN, 2), Err(Error::Negative { what: "eps", .. })));
}

#[test]
fn an_infinite_factor_is_refused_where_it_would_make_what_is_not_a_number() {
    let offsets = Offsets::new("offsets", &[0, 2], 2).unwrap();
    let how = Empg { fade: 1.0, bonus: 0.1, bonus_fade: 1.0, eps: 1e-6 };
    for (what, how) in [
        ("fade", Empg { fade: INF, ..how }),
        ("bonus", Empg { bonus: INF, ..how }),
        ("bonus_fade", Empg { bonus_fade: INF, ..how }),
        ("eps", Empg { eps: INF, ..how }),
    ] {
        assert_eq!(empg(&[1.0, 1.0], &[0.1, 0.2], offsets, how), Err(Error::Number { what, value: INF }));
    }
    let how = Shrunk { strength: INF, floor: 1e-6, min_count: 2 };
    let refused = shrunk(&[0.0, 1.0], &whole(2), how, 2);
    assert_eq!(refused, Err(Error::Number { what: "strength", value: INF }));
    let refused = soft_overlong_penalty(&[1, 9], 8, 4, PenaltyForm::Verl(INF), 2);
    assert_eq!(refused, Err(Error::Number { what: "factor", value: INF }));
}

#[test]
fn log_factors_of_other_rows_are_refused() {
    assert_eq!(join_log_factors(&[0.0, -1.0], &[0.5, 0.25]).unwrap(), [0.5, -0.75]);
    let refused = join_log_factors(&[0.0, -1.0], &[0.5, 0.25, 0.0]);
    assert_eq!(refused, Err(Error::Length { what: "log_factors", got: 3, wanted: 2 }));
}

#[test]
fn a_code_out_of_range_names_its_row() {
    assert_eq!(Groups::from_codes(vec![0, 5, 1], 2), Err(Error::Code { index: 1, code: 5, count: 2 }));
    let groups = Groups::from_codes(vec![Groups::NONE], 0).unwrap();
    assert!(groups.is_empty() && groups.code(9).is_none());
}

#[test]
fn a_given_row_that_the_log_does_not_have_is_refused() {
    for row in [-1, 3, i64::MIN] {
        assert_eq!(Ranking::given(&[0, row], 3).err(), Some(Error::Row { index: 1, row, count: 3 }));
    }
}

#[test]
fn temperatures_out_of_range_are_refused() {
    let with = |temperature| boltzmann(&[0.0, 1.0], &whole(2), temperature, 2);
    for value in [0.0, -0.5, 1.1] {
        assert_eq!(with(Temperature::Ess(value)), Err(Error::Fraction { what: "ess", value }));
    }
    assert!(matches!(with(Temperature::Ess(f64::NAN)), Err(Error::Fraction { what: "ess", .. })));
    let what = "inverse_temperature";
    assert_eq!(with(Temperature::Inverse(-1.0)), Err(Error::Negative { what, value: -1.0 }));
    assert!(matches!(with(Temperature::Inverse(f64::NAN)), Err(Error::Negative { .. })));
    assert_eq!(with(Temperature::Inverse(INF)), Err(Error::Number { what, value: INF }));
    assert_eq!(with(Temperature::Kl(INF)), Err(Error::Number { what: "kl", value: INF }));
    let table = temper(Rows::all(&[0.0, 1.0], &whole(2)), &[0.0, 1.0], &[1.0, INF], 2);
    assert_eq!(not_finite(table), (what, 1, INF.to_bits()));
}

#[test]
fn scores_without_a_target_are_refused() {
    let with = |scores: &[f64], b| boltzmann(scores, &whole(scores.len()), Temperature::Inverse(b), 2);
    assert_eq!(not_finite(with(&[0.0, INF], 1.0)), ("score", 1, INF.to_bits()));
    let spread = Error::Number { what: "spread of the scores", value: INF };
    assert_eq!(with(&[-1.7e308, 1.7e308], 1.0), Err(spread));
    assert_eq!(not_finite(with(&[1e300, 1e300], 1e300)), ("log_z", 0, INF.to_bits()));
}

#[test]
fn logs_that_are_no_logs_of_weights_are_refused() {
    for value in [f64::NAN, INF] {
        let logs = [0.0, value];
        assert_eq!(not_finite(log_sum_exp(&logs, 1)), ("log_sum_exp value", 1, value.to_bits()));
        assert_eq!(not_finite(log_mean_exp(&logs, 1)).1, 1);
        assert_eq!(not_finite(ess(&logs, 1)), ("log_weights", 1, value.to_bits()));
        assert_eq!(not_finite(Weighted::by_logs(&logs, &Keys::of_indices(2)).map(|_| ())).0, "log_weights");
        assert_eq!(not_finite(gumbel::keys(&logs, &Keys::of_indices(2), 7)).0, "log_weights");
    }
    assert_eq!(
        log_mean_exp::<f64>(&[], 1),
        Err(Error::Length { what: "log_mean_exp values", got: 0, wanted: 1 })
    );
    assert_eq!(log_sum_exp::<f64>(&[], 1), Ok(f64::NEG_INFINITY));
    assert_eq!(ess(&[f64::NEG_INFINITY], 1), Ok(0.0));
}

#[test]
fn a_minimum_has_to_be_a_number() {
    let refused = below_minimum(&mut [Verdict::Kept], &[1.0], f64::NAN, 1);
    assert_eq!(not_finite(refused).0, "min_reward");
}

#[test]
fn a_composite_needs_components_and_finite_weights() {
    assert_eq!(composite(&[], &[]), Err(Error::Length { what: "components", got: 0, wanted: 1 }));
    assert_eq!(composite(&[&[1.0]], &[]), Err(Error::Length { what: "weights", got: 0, wanted: 1 }));
    let uneven = composite(&[&[1.0], &[1.0, 2.0]], &[1.0, 1.0]);
    assert_eq!(uneven, Err(Error::Length { what: "component", got: 2, wanted: 1 }));
    assert_eq!(not_finite(composite(&[&[1.0]], &[INF])), ("weight", 0, INF.to_bits()));
    assert_eq!(not_finite(composite(&[&[1.0, INF]], &[1.0])), ("component", 1, INF.to_bits()));
}

#[test]
fn a_split_has_to_add_up() {
    assert_eq!(
        check_fractions(&[0.9, 0.05, 0.0]),
        Err(Error::Total { what: "split fractions", got: 0.9 + 0.05 })
    );
    let negative = check_fractions(&[1.1, -0.1, 0.0]);
    assert_eq!(negative, Err(Error::Negative { what: "split fraction", value: -0.1 }));
    assert_eq!(not_finite(check_fractions(&[1.0, f64::NAN, 0.0])).1, 1);
    assert_eq!(check_fractions(&[0.7, 0.2, 0.1]), Ok(()));
}

#[test]
fn a_summary_needs_numbers_and_a_range() {
    let values = [0.0, f64::NAN, INF];
    let of = |count, range| Summary::of(count, 1, |at| values[at], Some(range));
    assert_eq!(not_finite(of(3, (0.0, 1.0))), ("value", 2, INF.to_bits()));
    for range in [(1.0, 0.0), (f64::NAN, 1.0), (-1.7e308, 1.7e308)] {
        let refused = of(1, range);
        assert!(matches!(refused, Err(Error::Number { what: "width of the histogram", .. })), "{refused:?}");
    }
}

#[test]
fn columns_that_differ_in_rows_are_refused() {
    let (two, one) = (whole(2), [Verdict::Kept]);
    let refused = [
        centre(&[1.0], &two, 2).err(),
        boltzmann(&[1.0], &two, Temperature::Inverse(1.0), 2).err(),
        temper(Rows::all(&[1.0, 1.0], &two), &[1.0], &[1.0], 2).err(),
        gumbel::keys(&[0.0], &Keys::of_indices(0), 7).err(),
        Weighted::by_logs(&[0.0], &Keys::of_indices(0)).err(),
        cap_per_group(&mut [0.0], &two, 1).err(),
        missing_reward(&mut one.clone(), &[1.0, 2.0], 1).err(),
        missing_group(&mut one.clone(), &two, 1).err(),
        duplicate(&mut one.clone(), &[], &two).err(),
        duplicate(&mut one.clone(), &[1], &two).err(),
        below_minimum(&mut one.clone(), &[1.0, 2.0], 0.0, 1).err(),
        constant_groups(&[1.0], &two, 2).err(),
        Rules::default().mark(&mut one.clone(), &[1.0, 2.0], &two, None, 2).err(),
        write_order(&[1], &Keys::of_indices(1), 7).err(),
    ];
    for (index, error) in refused.into_iter().enumerate() {
        assert!(matches!(error, Some(Error::Length { .. })), "{index}: {error:?}");
    }
}

#[test]
fn a_selection_checks_every_column_and_dedup_needs_fingerprints() {
    let (keys, two, three) = (Keys::of_indices(2), whole(2), whole(3));
    let good = Population {
        keys: &keys,
        rewards: &[0.0, 1.0],
        groups: &two,
        scopes: Scopes::Of(&two),
        fingerprints: None,
        digests: None,
    };
    let mut settings = SelectionSettings {
        shaping: None,
        score: Score::Raw,
        rules: Rules::default(),
        temperature: Temperature::Ess(0.5),
        sampler: Sampler::Gumbel,
        seed: 7,
        threads: 2,
    };
    assert!(select(&good, &settings).is_ok());
    let length = |what, got| Err(Error::Length { what, got, wanted: 2 });
    assert_eq!(select(&Population { keys: &Keys::of_indices(1), ..good }, &settings), length("keys", 1));
    assert_eq!(select(&Population { groups: &three, ..good }, &settings), length("groups", 3));
    assert_eq!(select(&Population { scopes: Scopes::Of(&three), ..good }, &settings), length("scopes", 3));
    settings.rules.dedup = true;
    assert_eq!(select(&good, &settings), length("fingerprints", 0));
    assert!(select(&Population { fingerprints: Some(&[1, 2]), ..good }, &settings).is_ok());
}

#[test]
fn a_refused_cap_leaves_the_keys_as_they_were() {
    let mut keys = [3.0, 1.0, 2.0];
    assert!(cap_per_group(&mut keys, &whole(2), 0).is_err());
    assert_eq!(keys, [3.0, 1.0, 2.0]);
}
