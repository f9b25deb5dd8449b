//! Policy losses do not depend on the number of threads, nor on the width of vectors.

use karl_core::objective::{
    Advantages, Aggregate, Clip, Penalty, Per, PolicyGradient, Power, Ratio, Rollouts, Turns, Update,
    policy_loss, row_log_ratio,
};
use karl_core::{Error, Offsets};

/// logp, `logp_old`, mask, offsets and advantages.
type Batch = (Vec<f32>, Vec<f32>, Vec<bool>, Vec<i64>, Vec<f64>);

/// Sequences of 0 to 3000 tokens, of which every seventh is masked.
fn batch() -> Batch {
    let mut offsets = vec![0];
    for sequence in 0..200_i64 {
        offsets.push(offsets[offsets.len() - 1] + (sequence * 7919) % 3001);
    }
    let tokens = offsets[offsets.len() - 1];
    let old: Vec<f32> = (0..tokens).map(|t| -((t * 104_729 % 997) as f32) / 300.0).collect();
    let logp = old.iter().zip(0..).map(|(old, t): (&f32, i64)| old + (t * 31 % 101 - 50) as f32 / 90.0);
    let advantages = (0..200).map(|sequence| f64::from(sequence % 5 - 2)).collect();
    (logp.collect(), old, (0..tokens).map(|t| t % 7 != 3).collect(), offsets, advantages)
}

/// The mean over tokens under a clip.
fn clipped(ratio: Ratio<'_>, clip: Clip) -> PolicyGradient<'_> {
    let aggregate = Aggregate::TokenMean { tokens: None };
    let update = Update::Bounded(clip);
    PolicyGradient {
        ratio,
        update,
        mask_negatives: None,
        penalty: Penalty::None,
        aggregate,
        row_weights: None,
    }
}

#[test]
fn the_bits_are_the_same_for_any_number_of_threads() {
    let (logp, old, mask, offsets, advantages) = batch();
    let offsets = Offsets::new("offsets", &offsets, logp.len()).unwrap();
    let tokens = Rollouts::new(&logp, Some(&old), None, &mask, offsets).unwrap();
    let turns = Ratio::Turn(Turns::Offsets(offsets));
    for ratio in [Ratio::Token, Ratio::Sequence, Ratio::SequenceToken, turns] {
        // Tight enough for the mean of a sequence.
        let objective = clipped(ratio, Clip::ppo(3e-4, 4e-4).unwrap());
        let with = |threads| {
            let mut coefficient = vec![f32::NAN; logp.len()];
            let advantages = Advantages::double(&advantages, Per::Sequence);
            let found = policy_loss(&tokens, advantages, &objective, &mut coefficient, threads).unwrap();
            (found, coefficient)
        };
        let (alone, written) = with(1);
        assert!(written.iter().all(|value| value.is_finite()));
        assert!(alone.statistics.tokens > 4 << 15 && alone.statistics.clip_high > 0.0);
        for threads in [0, 2, 3, 64] {
            assert_eq!(with(threads), (alone, written.clone()));
        }
    }
    let ratios = |threads| {
        let ratios = row_log_ratio(&tokens, Power::Mean, threads).unwrap();
        ratios.into_iter().map(f64::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(ratios(1), ratios(5));
}

#[test]
fn a_turn_that_crosses_sequences_is_refused() {
    let (logp, starts, turns) = ([-1.0; 6], [0, 2, 2, 6], [0, 1, 3, 6]);
    let offsets = Offsets::new("offsets", &starts, 6).unwrap();
    let turns = Offsets::new("turn_offsets", &turns, 6).unwrap();
    let tokens = Rollouts::new(&logp, Some(&logp), None, &[true; 6], offsets).unwrap();
    let objective = clipped(Ratio::Turn(Turns::Offsets(turns)), Clip::NONE);
    let advantages = Advantages::double(&[1.0; 3], Per::Sequence);
    let found = policy_loss(&tokens, advantages, &objective, &mut [0.0; 6], 1);
    let wanted = Error::Offset { what: "turn_offsets", index: 2, got: 3, low: 1, high: 2 };
    assert_eq!(found, Err(wanted));
}

#[test]
fn a_clamp_narrows_the_range_of_every_clip() {
    let clip = Clip::dual(0.5, 0.5, 4.0).unwrap().clamped(0.1).unwrap();
    for bounds in [clip.positive, clip.negative] {
        assert_eq!((bounds.floor, bounds.ceiling), (libm::exp(-0.1), libm::exp(0.1)));
    }
    assert!(Clip::NONE.clamped(-1.0).is_err());
}

#[test]
fn every_coefficient_is_written_where_nothing_counts() {
    let (logp, starts, turns) = ([-1.0_f64; 6], [0, 0, 3, 6], [0, 1, 3, 6]);
    let [offsets, turns] = [&starts[..], &turns].map(|starts| Offsets::new("offsets", starts, 6).unwrap());
    let mask = [false, true, true, false, false, false];
    let tokens = Rollouts::new(&logp, Some(&logp), None, &mask, offsets).unwrap();
    for ratio in [Ratio::Token, Ratio::Turn(Turns::Offsets(turns)), Ratio::Sequence] {
        let objective = clipped(ratio, Clip::NONE);
        let mut coefficient = [f64::NAN; 6];
        let advantages = Advantages::double(&[1.0; 3], Per::Sequence);
        policy_loss(&tokens, advantages, &objective, &mut coefficient, 1).unwrap();
        assert_eq!(coefficient.map(f64::to_bits), [0.0, -0.5, -0.5, 0.0, 0.0, 0.0].map(f64::to_bits));
    }
}

#[test]
fn the_first_number_that_is_not_finite_is_named() {
    let (starts, mask) = ([0, 3, 6], [true, false, true, true, true, true]);
    let offsets = Offsets::new("offsets", &starts, 6).unwrap();
    let with = |logp: [f64; 6], advantages: [f64; 2], clip| {
        let rollouts = Rollouts::new(&logp, Some(&[-1.0; 6]), None, &mask, offsets).unwrap();
        let advantages = Advantages::double(&advantages, Per::Sequence);
        policy_loss(&rollouts, advantages, &clipped(Ratio::Token, clip), &mut [0.0; 6], 1)
    };
    let clip = Clip::ppo(0.2, 0.2).unwrap();
    let named =
        |found| if let Err(Error::NotFinite { what, index, .. }) = found { (what, index) } else { ("", 0) };
    let one = |at: usize, value| std::array::from_fn(|token| if token == at { value } else { -1.0 });
    assert!(with(one(1, f64::NAN), [1.0, -1.0], clip).is_ok(), "a masked token is not read");
    // The clip hides both from the loss.
    assert_eq!(named(with(one(2, f64::INFINITY), [1.0, -1.0], clip)), ("logp", 2));
    assert_eq!(named(with(one(4, f64::NEG_INFINITY), [1.0, -1.0], clip)), ("logp", 4));
    assert_eq!(named(with(one(9, 0.0), [1.0, f64::NAN], clip)), ("advantages", 1));
    // A ratio that is infinite is not an error under a clip, and is one without.
    assert!(with(one(0, 900.0), [1.0, -1.0], clip).is_ok());
    assert_eq!(named(with(one(0, 900.0), [1.0, -1.0], Clip::NONE)), ("coefficient", 0));
}
