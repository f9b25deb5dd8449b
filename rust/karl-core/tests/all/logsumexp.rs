//! Partitions, values and divergences: the same bits for any number of threads, and what they are made of.

use karl_core::kl::{self, Direction, Estimator, KlTokens, Through};
use karl_core::logsumexp::{
    ess, log_sum_exp, log_sum_exp_by, log_sum_exp_rows, regression_intercept, soft_value,
};
use karl_core::sketch::LogSumExp;
use karl_core::target::{Tpo, awr_weights, rwr_weights, tpo};
use karl_core::{Error, Groups, Offsets, Real, Scopes, Temperature, boltzmann};
use twox_hash::XxHash3_64;

const ROWS: u16 = 50_003;
const THREADS: [usize; 3] = [2, 3, 7];

/// Numbers from -7.5 to 7.5, and others for another salt.
fn numbers(salt: u64) -> Vec<f64> {
    let one = |k: u64| (k * 2 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..u64::from(ROWS)).map(|k| (one(k) >> 11) as f64 * 2f64.powi(-53) * 15.0 - 7.5).collect()
}

fn ids(groups: i64) -> Vec<i64> {
    (0..i64::from(ROWS)).map(|row| row * 7919 % groups).collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn one_result(of: impl Fn(usize) -> Vec<f64>) -> Vec<f64> {
    let alone = of(1);
    for threads in THREADS {
        assert_eq!(bits(&of(threads)), bits(&alone), "{threads} threads");
    }
    alone
}

#[test]
fn partitions_do_not_depend_on_threads() {
    let values = numbers(1);
    let single: Vec<f32> = values.iter().map(|&value| Real::narrow(value)).collect();
    one_result(|threads| vec![log_sum_exp(&values, threads).unwrap(), ess(&values, threads).unwrap()]);
    one_result(|threads| vec![log_sum_exp(&single, threads).unwrap()]);
    let groups = Groups::from_ids(&ids(777)).unwrap();
    one_result(|threads| log_sum_exp_by(&values, &groups, threads).unwrap());
    let ends: Vec<i64> = (0..i64::from(ROWS) / 3).map(|row| row * 3).chain([i64::from(ROWS)]).collect();
    let offsets = Offsets::new("offsets", &ends, values.len()).unwrap();
    one_result(|threads| log_sum_exp_rows(&values, &offsets, threads).unwrap());
}

#[test]
fn values_and_weights_do_not_depend_on_threads() {
    let (rewards, logs) = (numbers(1), numbers(2));
    let groups = Groups::from_ids(&ids(500)).unwrap();
    one_result(|threads| soft_value(&rewards, &groups, 0.5, threads).unwrap());
    one_result(|threads| regression_intercept(&rewards, &logs, &groups, 0.5, threads).unwrap());
    one_result(|threads| awr_weights(&rewards, 2.0, Some(20.0), true, threads).unwrap());
    one_result(|threads| rwr_weights(&rewards, 2.0, threads).unwrap());
    let settings = Tpo { temperature: 1.0, anchored: true };
    one_result(|threads| tpo(&logs, &rewards, &groups, settings, threads).unwrap());
    one_result(|threads| {
        let fit = boltzmann(&rewards, Scopes::Of(&groups), Temperature::Kl(0.3), threads).unwrap();
        assert!((fit.reached_kl - 0.3).abs() < 1e-9, "{}", fit.reached_kl);
        vec![fit.inverse_temperature, fit.reached_kl, fit.reached_ess]
    });
}

#[test]
fn divergences_do_not_depend_on_threads() {
    let (logp, logp_ref) = (numbers(1), numbers(2));
    let tokens = KlTokens { logp: &logp, logp_ref: &logp_ref, logp_old: Some(&logp_ref), mask: None };
    one_result(|threads| kl::estimate(tokens, Estimator::K3, threads).unwrap());
    one_result(|threads| kl::gradient(tokens, Estimator::K3, Through::Ratio, threads).unwrap());
    let (p, q) = (&logp[..50_000], &logp_ref[..50_000]);
    one_result(|threads| kl::categorical(p, q, 500, Direction::Reverse, threads).unwrap());
    one_result(|threads| kl::categorical_gradient(p, q, 500, Direction::Forward, threads).unwrap());
}

/// The first values of a block say what its weights are relative to; what comes later may be far above them.
#[test]
fn the_largest_value_may_stand_anywhere() {
    for rest in [f64::NEG_INFINITY, -1e300, -1000.0, -299.0, -297.0, -40.0, -1.0] {
        for place in [0, 63, 64, 4095, 4096, 4999] {
            let mut values = vec![rest; 5000];
            values[place] = 2.5;
            let others = [1.0, 2.0].map(|power| 4999.0 * libm::exp(power * (rest - 2.5)));
            let log = log_sum_exp(&values, 1).unwrap() - 2.5;
            assert!((log - others[0].ln_1p()).abs() < 2e-15 * (1.0 + log), "{rest} {place}: {log}");
            let size = (1.0 + others[0]).powi(2) / (1.0 + others[1]);
            assert!((ess(&values, 1).unwrap() / size - 1.0).abs() < 1e-13, "{rest} {place}: {size}");
            for odd in [f64::NAN, f64::INFINITY] {
                values[place] = odd;
                let refused = log_sum_exp(&values, 1).unwrap_err();
                assert!(matches!(refused, Error::NotFinite { index, .. } if index == place));
            }
        }
    }
}

/// The bits of a group depend on its values alone, wherever they stand and whatever stands between them.
#[test]
fn a_group_in_runs_has_the_bits_of_one_that_is_strewn() {
    let (values, ids) = (numbers(3), ids(777));
    let strewn = log_sum_exp_by(&values, &Groups::from_ids(&ids).unwrap(), 1).unwrap();
    let mut rows: Vec<usize> = (0..ids.len()).collect();
    rows.sort_by_key(|&row| ids[row]);
    let sorted: Vec<f64> = rows.iter().map(|&row| values[row]).collect();
    let ends: Vec<i64> = rows.iter().map(|&row| ids[row]).collect();
    let found =
        one_result(|threads| log_sum_exp_by(&sorted, &Groups::from_ids(&ends).unwrap(), threads).unwrap());
    let first = |group: i64| ids.iter().position(|&id| id == group).unwrap();
    let mut order: Vec<i64> = (0..777).collect();
    order.sort_by_key(|&group| first(group));
    for (log, group) in strewn.iter().zip(order) {
        assert_eq!(log.to_bits(), found[usize::try_from(group).unwrap()].to_bits(), "group {group}");
    }
}

/// Pinned: the lanes and the order of blocks are part of the result.
#[test]
fn bits_are_pinned() {
    let values = numbers(1);
    let found = [log_sum_exp(&values, 2).unwrap(), ess(&values, 2).unwrap()];
    assert_eq!(bits(&found), [4_624_978_146_984_386_567, 4_664_051_688_606_789_074]);
}

#[test]
fn a_partition_survives_its_bytes_and_refuses_others() {
    let mut seen = LogSumExp::default();
    seen.update(&numbers(3), 2).unwrap();
    let bytes = seen.to_bytes();
    assert_eq!(LogSumExp::from_bytes(&bytes), Ok(seen));
    for length in 0..bytes.len() {
        assert!(
            matches!(LogSumExp::from_bytes(&bytes[..length]), Err(Error::Bytes { .. })),
            "{length} bytes"
        );
    }
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert!(matches!(LogSumExp::from_bytes(&other), Err(Error::Bytes { .. })), "byte {at}");
    }
}

/// The state of so many zero weights: mark, kind and version, the count, no bins, and the hash.
fn counted(count: u64) -> Vec<u8> {
    let mut bytes = LogSumExp::default().to_bytes();
    bytes[8..16].copy_from_slice(&count.to_le_bytes());
    bytes.truncate(16);
    let hash = XxHash3_64::oneshot(&bytes);
    bytes.extend(hash.to_le_bytes());
    bytes
}

#[test]
fn a_partition_counts_no_more_than_its_bins_hold() {
    assert!(matches!(LogSumExp::from_bytes(&counted((1 << 43) + 1)), Err(Error::Bytes { .. })));
    let mut full = LogSumExp::from_bytes(&counted(1 << 43)).unwrap();
    let before = full.clone();
    let refused = full.update(&[0.0], 1).unwrap_err();
    assert!(matches!(refused, Error::Most { most, .. } if most == 1 << 43));
    assert_eq!(full, before);
}
