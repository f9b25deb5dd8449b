//! Intervals and tests by resampling: enumeration, closed forms, coverage, and the same bits for any number of threads.

#![allow(clippy::cast_possible_truncation, reason = "small whole numbers")]

use karl_core::group::offsets::Offsets;
use karl_core::resampling::{EXACT_MOST, bootstrap_mean, sign_flip, sign_flip_limit};
use karl_core::rng::{Key, Purpose, uniform};
use karl_core::{Error, Result};

const DRAWS: usize = 1 << 14;

/// Numbers that look drawn, in (0, 1).
fn uniforms(count: usize, seed: u64) -> Vec<f64> {
    (0..count).map(|at| uniform(seed, Key::of_index(at), Purpose::Stream)).collect()
}

/// Differences of a few levels, so that sums tie.
fn levels(count: usize, seed: u64) -> Vec<f64> {
    uniforms(count, seed).into_iter().map(|u| ((u * 7.0).floor() - 2.0) / 3.0).collect()
}

fn test_one(differences: &[f64], threads: usize) -> Result<f64> {
    let ends = [0, i64::try_from(differences.len()).unwrap_or(0)];
    Ok(sign_flip(differences, Offsets::new("offsets", &ends, differences.len())?, DRAWS, 7, threads)?[0])
}

/// The naive twin: all sign patterns, in whole numbers.
fn enumerated(thirds: &[i64]) -> f64 {
    let observed: i64 = thirds.iter().sum();
    let patterns = 1_u64 << thirds.len();
    let at_least = (0..patterns).filter(|pattern| {
        let signed = |(at, &value): (usize, &i64)| if pattern >> at & 1 == 1 { -value } else { value };
        thirds.iter().enumerate().map(signed).sum::<i64>() >= observed
    });
    at_least.count() as f64 / patterns as f64
}

#[test]
fn the_exact_test_equals_enumeration_with_its_ties() -> Result<()> {
    for count in 0..=12 {
        for seed in 0..20 {
            let differences = levels(count, seed);
            let thirds: Vec<i64> = differences.iter().map(|one| (one * 3.0).round() as i64).collect();
            assert_eq!(
                test_one(&differences, 1)?.to_bits(),
                enumerated(&thirds).to_bits(),
                "{differences:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn drawn_patterns_agree_with_the_exact_test() -> Result<()> {
    for seed in 0..5 {
        let few = levels(EXACT_MOST, seed);
        // A difference of 0 changes nothing, and makes the row too long for every pattern.
        let many = [few.clone(), vec![0.0]].concat();
        let (exact, drawn) = (test_one(&few, 1)?, test_one(&many, 1)?);
        let error = (exact * (1.0 - exact) / DRAWS as f64).sqrt();
        assert!((exact - drawn).abs() < 5.0 * error + 1.0 / DRAWS as f64, "{exact} {drawn}");
    }
    Ok(())
}

#[test]
fn the_limit_is_where_the_test_begins_to_accept() -> Result<()> {
    for (count, seed) in [(6, 1), (12, 2), (25, 3), (80, 4)] {
        let differences: Vec<f64> = uniforms(count, seed).into_iter().map(|u| u - 0.3).collect();
        let weights: Vec<f64> = uniforms(count, seed + 50).into_iter().map(|u| 1.0 + u).collect();
        let limit = sign_flip_limit(&differences, &weights, 0.05, DRAWS, 7, 2)?;
        let shifted = |mean: f64| {
            let one = |(d, w): (&f64, &f64)| d - mean * w;
            test_one(&differences.iter().zip(&weights).map(one).collect::<Vec<_>>(), 1)
        };
        assert!(shifted(limit - 1e-6)? <= 0.05, "{count} differences, limit {limit}");
        assert!(shifted(limit + 1e-6)? > 0.05, "{count} differences, limit {limit}");
    }
    Ok(())
}

/// The naive twin: the means of all subsets but the empty one, in order.
fn means_of_subsets(differences: &[f64], weights: &[f64]) -> Vec<f64> {
    let mean = |subset: usize| {
        let of = |column: &[f64]| {
            column.iter().enumerate().filter(|(at, _)| subset >> at & 1 == 1).map(|(_, one)| one).sum::<f64>()
        };
        of(differences) / of(weights)
    };
    let mut means: Vec<f64> = (1..1_usize << differences.len()).map(mean).collect();
    means.sort_by(f64::total_cmp);
    means
}

#[test]
fn the_limit_is_an_order_statistic_of_all_subset_means() -> Result<()> {
    let draws: [fn(usize, u64) -> Vec<f64>; 3] = [uniforms, levels, |count, seed| {
        uniforms(count, seed).iter().map(|u| (u * 20.0).round() / 100.0).collect()
    }];
    for (count, seed) in [(1, 1), (2, 2), (7, 3), (13, 4), (18, 5)] {
        for draw in draws {
            let differences = draw(count, seed);
            for weights in [vec![1.0; count], uniforms(count, seed + 9).iter().map(|u| 0.1 + u).collect()] {
                let means = means_of_subsets(&differences, &weights);
                for alpha in [0.0003, 0.025, 0.3, 0.9] {
                    #[allow(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "below the number of means"
                    )]
                    let rank = ((means.len() + 1) as f64 * alpha).floor() as usize;
                    let limit = sign_flip_limit(&differences, &weights, alpha, DRAWS, 7, 1)?;
                    let wanted = if rank == 0 { f64::NEG_INFINITY } else { means[rank - 1] };
                    assert!(
                        limit.total_cmp(&wanted).is_eq() || (limit - wanted).abs() < 1e-13,
                        "{count} {alpha} {limit} {wanted}"
                    );
                }
            }
        }
    }
    Ok(())
}

/// Of so many differences the search takes several rounds; its rank is counted by the test.
#[test]
fn the_limit_of_many_differences_has_its_rank() -> Result<()> {
    for count in [22, 27] {
        let hundredths: Vec<f64> =
            uniforms(count, 8).iter().map(|u| (u * 100.0).round() / 100.0 - 0.3).collect();
        for differences in [uniforms(count, 3), levels(count, 4), hundredths] {
            for alpha in [1e-6, 0.025, 0.5] {
                let limit = sign_flip_limit(&differences, &vec![1.0; count], alpha, DRAWS, 7, 1)?;
                let shifted = |by: f64| {
                    let rest: Vec<f64> = differences.iter().map(|one| one - limit - by).collect();
                    test_one(&rest, 1)
                };
                assert!(shifted(-1e-12)? <= alpha && shifted(1e-12)? > alpha, "{count} {alpha} {limit}");
            }
        }
    }
    Ok(())
}

#[test]
fn too_few_differences_exclude_nothing() -> Result<()> {
    assert!(sign_flip_limit(&[1.0; 4], &[1.0; 4], 0.05, DRAWS, 7, 1)?.is_infinite());
    assert!(sign_flip_limit(&[1.0; 5], &[1.0; 5], 0.05, DRAWS, 7, 1)? > 0.999);
    assert!(sign_flip_limit(&[], &[], 0.05, DRAWS, 7, 1)?.is_infinite());
    assert_eq!(test_one(&[], 1)?.to_bits(), 1.0_f64.to_bits());
    Ok(())
}

#[test]
fn nothing_depends_on_threads() -> Result<()> {
    let values = uniforms(150, 3);
    let offsets = [0, 10, 10, 50, 150];
    let all = |threads| -> Result<Vec<u64>> {
        let mut found = sign_flip(&values, Offsets::new("offsets", &offsets, 150)?, DRAWS, 7, threads)?;
        found.push(test_one(&values, threads)?);
        found.push(sign_flip_limit(&values, &[1.0; 150], 0.05, DRAWS, 7, threads)?);
        let (low, high) = bootstrap_mean(&values, 0.95, 999, 7, threads)?;
        found.extend([low, high]);
        Ok(found.into_iter().map(f64::to_bits).collect())
    };
    let alone = all(1)?;
    for threads in [2, 3, 8] {
        assert_eq!(all(threads)?, alone, "{threads} threads");
    }
    Ok(())
}

/// Share of 1,000 experiments in which the interval holds the mean of the distribution.
fn coverage(count: usize, draw: impl Fn(f64) -> f64, mean: f64) -> Result<f64> {
    let experiments = 1_000;
    let mut holds = 0;
    for experiment in 0..experiments {
        let values: Vec<f64> = uniforms(count, 1_000 + experiment).into_iter().map(&draw).collect();
        let (low, high) = bootstrap_mean(&values, 0.95, 499, experiment, 1)?;
        holds += u32::from(low <= mean && mean <= high);
    }
    Ok(f64::from(holds) / experiments as f64)
}

#[test]
fn bootstrap_intervals_cover_the_mean_as_often_as_they_say() -> Result<()> {
    // Three standard errors of 1,000 experiments at 95 % are 2.1 %; plain percentiles of 8 values cover 89 %.
    for count in [8, 40] {
        let found = coverage(count, |u| u, 0.5)?;
        assert!((0.925..0.975).contains(&found), "{count} uniforms: {found}");
    }
    let found = coverage(60, |u| f64::from(u < 0.3), 0.3)?;
    assert!((0.925..0.975).contains(&found), "success or failure: {found}");
    Ok(())
}

#[test]
fn an_interval_of_equal_values_is_that_value() -> Result<()> {
    assert_eq!(bootstrap_mean(&[0.25; 9], 0.95, 99, 0, 1)?, (0.25, 0.25));
    assert!(bootstrap_mean(&[1.0], 0.95, 99, 0, 1)?.0.is_nan());
    Ok(())
}

#[test]
fn what_cannot_be_tested_is_refused() {
    assert!(matches!(test_one(&[1.0, f64::NAN], 1), Err(Error::NotFinite { index: 1, .. })));
    assert!(matches!(bootstrap_mean(&[1.0, 2.0], 1.5, 99, 0, 1), Err(Error::Range { .. })));
    assert!(matches!(bootstrap_mean(&[1.0, 2.0], 0.9, 0, 0, 1), Err(Error::Positive { .. })));
    let limit = |weights: &[f64], alpha| sign_flip_limit(&[1.0, 2.0], weights, alpha, 9, 0, 1);
    assert!(matches!(limit(&[1.0], 0.1), Err(Error::Length { .. })));
    assert!(matches!(limit(&[1.0, 0.0], 0.1), Err(Error::Outside { index: 1, .. })));
    assert!(matches!(limit(&[1.0, 1.0], 0.0), Err(Error::Fraction { .. })));
}
