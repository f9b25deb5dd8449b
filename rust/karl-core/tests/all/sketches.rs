//! States that are filled in parts: any parts in any order leave the bytes of the whole, and bytes that no state was written
//! as are refused.

use karl_core::numeric::sum::sum;
use karl_core::sample::{priority, var_opt};
use karl_core::sketch::{Law, Moments, TopK, VarOptSketch};
use karl_core::{Error, Key, Keys, Sampler, Weighted};
use proptest::prelude::*;

use crate::naive;

const LAWS: [Law; 3] = [Law::Gumbel, Law::Uniform, Law::Priority];

/// Some items come twice, with one size.
fn items() -> impl Strategy<Value = Vec<(u8, f64)>> {
    let size = |id: u8| f64::from(id % 7) * 0.5;
    prop::collection::vec(any::<u8>().prop_map(move |id| (id, size(id))), 0..200)
}

fn keys(items: &[(u8, f64)]) -> Keys {
    Keys::given(
        items.iter().map(|&(id, _)| Key { id: u128::from(id) << 70, ordinal: u64::from(id % 2) }).collect(),
    )
}

fn fill(state: &mut TopK, items: &[(u8, f64)]) {
    let sizes: Vec<f64> = items.iter().map(|&(_, size)| size).collect();
    let sizes = (state.law() != Law::Uniform).then_some(&sizes[..]);
    state.update(&keys(items), sizes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_parts_in_any_order_leave_the_bytes_of_the_whole(
        items in items(), k in 0..40_usize, seed: u64, cut in 0..200_usize, turn in 0..200_usize,
    ) {
        for law in LAWS {
            let new = || TopK::new(law, k, seed);
            let (mut whole, mut first, mut last) = (new(), new(), new());
            fill(&mut whole, &items);
            let mut turned = items.clone();
            turned.rotate_left(turn % items.len().max(1));
            let (a, b) = turned.split_at(cut.min(turned.len()));
            fill(&mut first, b);
            fill(&mut last, a);
            last.merge(&first).unwrap();
            first.merge(&last).unwrap();
            let bytes = whole.to_bytes();
            prop_assert_eq!(last.to_bytes(), &bytes[..]);
            prop_assert_eq!(first.to_bytes(), &bytes[..], "what is known already changes nothing");
            let mut read = TopK::from_bytes(law, &bytes).unwrap();
            prop_assert_eq!(read.drawn(), whole.drawn());
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }

    #[test]
    fn a_state_draws_what_the_array_draws(sizes in prop::collection::vec(0.0..9.0_f64, 1..120), k in 1..30_usize, seed: u64) {
        let keys = Keys::of_indices(sizes.len());
        let weighted = Weighted::by_logs(&sizes, &keys).unwrap();
        let drawn = |law| {
            let mut state = TopK::new(law, k, seed);
            state.update(&keys, (law != Law::Uniform).then_some(&sizes[..])).unwrap();
            let (entries, threshold) = state.drawn();
            (entries.iter().map(|one| u32::try_from(one.key.id).unwrap()).collect::<Vec<_>>(), threshold)
        };
        let mut race = weighted.ranking(Sampler::Gumbel, seed, 1).unwrap();
        prop_assert_eq!(drawn(Law::Gumbel), (race.take(k), race.threshold()));
        let mut alike = weighted.ranking(Sampler::Reservoir, seed, 1).unwrap();
        prop_assert_eq!(drawn(Law::Uniform), (alike.take(k), alike.threshold()));
        let wanted = priority::draw(&sizes, k, &keys, seed, 1).unwrap();
        let (rows, threshold) = drawn(Law::Priority);
        prop_assert_eq!((rows, threshold.unwrap_or(0.0)), (wanted.rows, wanted.threshold));
    }

    #[test]
    fn a_variance_optimal_sample_goes_on_from_its_bytes(
        weights in prop::collection::vec(0.0..9.0_f64, 1..120), k in 1..20_usize, seed: u64, cut in 0..120_usize,
    ) {
        let keys = Keys::of_indices(weights.len());
        let cut = cut.min(weights.len());
        let part = |rows: std::ops::Range<usize>| Keys::given(rows.map(|row| keys.get(row)).collect());
        let mut state = VarOptSketch::new(k, seed).unwrap();
        state.update(&part(0..cut), &weights[..cut]).unwrap();
        let mut state = VarOptSketch::from_bytes(&state.to_bytes()).unwrap();
        state.update(&part(cut..weights.len()), &weights[cut..]).unwrap();
        let mut found = state.items();
        found.sort_unstable_by_key(|&(key, _)| key);
        let wanted = var_opt::draw(&weights, k, &keys, seed).unwrap();
        prop_assert_eq!(found.iter().map(|&(key, _)| u32::try_from(key.id).unwrap()).collect::<Vec<_>>(), wanted.rows);
        prop_assert_eq!(found.into_iter().map(|(_, estimate)| estimate).collect::<Vec<_>>(), wanted.estimates);
    }

    #[test]
    fn a_variance_optimal_sample_keeps_its_size_and_the_total_over_merges(
        parts in prop::collection::vec(prop::collection::vec(0.1..9.0_f64, 0..60), 1..6), k in 1..20_usize, seed: u64,
    ) {
        let mut whole = VarOptSketch::new(k, seed).unwrap();
        for (at, weights) in parts.iter().enumerate() {
            let mut part = VarOptSketch::new(k, seed).unwrap();
            let keys = (0..weights.len()).map(|row| Key { id: at as u128, ordinal: row as u64 }).collect();
            part.update(&Keys::given(keys), weights).unwrap();
            whole.merge(&part).unwrap();
        }
        let (items, total) = (whole.items(), sum(parts.iter().flatten().copied()));
        prop_assert_eq!(items.len(), k.min(parts.iter().map(Vec::len).sum()));
        let found = sum(items.iter().map(|&(_, estimate)| estimate));
        prop_assert!((found - total).abs() <= 1e-12 * total, "{} {}", found, total);
    }

    #[test]
    fn moments_of_parts_are_those_of_the_whole_to_the_bit(
        values in prop::collection::vec(prop_oneof![-1e9..1e9_f64, Just(f64::NAN), Just(1e-30)], 0..80), cut in 0..80_usize,
    ) {
        let (mut whole, mut first, mut last) = (Moments::default(), Moments::default(), Moments::default());
        whole.update(&values).unwrap();
        let (a, b) = values.split_at(cut.min(values.len()));
        first.update(b).unwrap();
        last.update(a).unwrap();
        first.merge(&last).unwrap();
        prop_assert_eq!(first.to_bytes(), whole.to_bytes());
        prop_assert_eq!(Moments::from_bytes(&whole.to_bytes()).unwrap().to_bytes(), whole.to_bytes());
        let present: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
        if let Some((mean, variance)) = naive::mean_and_variance(&present, 1) {
            prop_assert!((whole.mean() - mean).abs() <= 1e-12 * mean.abs() + 1e-15);
            prop_assert!((whole.variance(1) - variance).abs() <= 1e-12 * variance + 1e-15);
        }
    }
}

#[test]
fn states_of_other_settings_are_not_merged_and_stay_as_they_were() {
    let mut state = TopK::new(Law::Gumbel, 3, 7);
    fill(&mut state, &[(1, 0.5), (2, 1.0)]);
    let before = state.to_bytes();
    for (other, wanted) in [
        (TopK::new(Law::Priority, 3, 7), "law"),
        (TopK::new(Law::Gumbel, 4, 7), "k"),
        (TopK::new(Law::Gumbel, 3, 8), "seed"),
    ] {
        assert!(matches!(state.merge(&other), Err(Error::Merge { differs, .. }) if differs == wanted));
    }
    assert_eq!(state.to_bytes(), before);
    let mut sample = VarOptSketch::new(3, 7).unwrap();
    assert!(matches!(
        sample.merge(&VarOptSketch::new(4, 7).unwrap()),
        Err(Error::Merge { differs: "k", .. })
    ));
    assert!(matches!(
        sample.merge(&VarOptSketch::new(3, 8).unwrap()),
        Err(Error::Merge { differs: "seed", .. })
    ));
    assert!(VarOptSketch::new(0, 7).is_err());
}

#[test]
fn a_refused_column_leaves_a_state_as_it_was() {
    let (mut state, keys) = (TopK::new(Law::Priority, 3, 7), Keys::of_indices(2));
    assert!(state.update(&keys, Some(&[1.0, -1.0])).is_err());
    assert!(state.update(&keys, Some(&[1.0])).is_err());
    assert!(state.drawn().0.is_empty());
    let mut moments = Moments::default();
    assert!(moments.update(&[1.0, f64::INFINITY]).is_err());
    assert_eq!(moments.count, 0);
    assert!(moments.mean().is_nan() && moments.variance(0).is_nan());
}

#[test]
fn of_equal_ranks_the_smallest_keys_are_held() {
    // Beside 1e300 a Gumbel number is nothing. The smallest come last, when the state has been tidied.
    let keys = Keys::given((0..500).rev().map(Key::of_index).collect());
    let mut state = TopK::new(Law::Gumbel, 3, 7);
    state.update(&keys, Some(&[1e300; 500])).unwrap();
    assert_eq!(state.drawn().0.iter().map(|one| one.key.id).collect::<Vec<_>>(), [0, 1, 2]);
}

/// The round stands behind mark, kind, version, k and seed.
fn round(state: &VarOptSketch) -> u64 {
    u64::from_le_bytes(state.to_bytes()[24..32].try_into().unwrap())
}

#[test]
fn a_merged_sample_draws_by_numbers_that_neither_of_its_parts_has_used() {
    let [mut one, mut other] = [(); 2].map(|()| VarOptSketch::new(3, 7).unwrap());
    one.merge(&other).unwrap();
    assert_eq!((round(&one), round(&other)), (1, 0));
    other.merge(&one).unwrap();
    assert_eq!(round(&other), 2, "one above the part that was merged");
    other.merge(&one).unwrap();
    assert_eq!(round(&other), 3, "one above the part that it was merged into");
}

#[test]
fn a_sample_of_more_heavy_items_than_k_is_refused() {
    let mut sample = VarOptSketch::new(5, 7).unwrap();
    sample.update(&Keys::of_indices(5), &[1.0, 2.0, 3.0, 40.0, 5.0]).unwrap();
    let of = |k: u64| {
        let mut bytes = sample.to_bytes();
        bytes[8..16].copy_from_slice(&k.to_le_bytes());
        VarOptSketch::from_bytes(&sealed(bytes)).is_ok()
    };
    assert_eq!([6, 5, 4].map(of), [true, true, false]);
}

#[test]
fn squares_beyond_f64_make_the_variance_infinite_on_either_side_of_zero() {
    for far in [1e160, -1e160] {
        let mut moments = Moments::default();
        moments.update(&[far, 0.0, 1.0]).unwrap();
        assert!(moments.variance(0) >= f64::INFINITY, "{far}");
    }
}

/// Whether bytes are read.
type Reads = fn(&[u8]) -> bool;

/// Bytes of every kind of state, and what reads them.
fn written() -> Vec<(Vec<u8>, Reads)> {
    let mut states: Vec<(Vec<u8>, Reads)> = Vec::new();
    let readers: [Reads; 3] = [
        |bytes| TopK::from_bytes(Law::Gumbel, bytes).is_ok(),
        |bytes| TopK::from_bytes(Law::Uniform, bytes).is_ok(),
        |bytes| TopK::from_bytes(Law::Priority, bytes).is_ok(),
    ];
    for (law, reader) in LAWS.into_iter().zip(readers) {
        let mut state = TopK::new(law, 3, 7);
        fill(&mut state, &[(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0), (5, 2.5)]);
        states.push((state.to_bytes(), reader));
    }
    let mut sample = VarOptSketch::new(3, 7).unwrap();
    sample.update(&Keys::of_indices(5), &[1.0, 2.0, 3.0, 40.0, 5.0]).unwrap();
    states.push((sample.to_bytes(), |bytes| VarOptSketch::from_bytes(bytes).is_ok()));
    let mut moments = Moments::default();
    moments.update(&[1.0, -2.5, 1e9]).unwrap();
    states.push((moments.to_bytes(), |bytes| Moments::from_bytes(bytes).is_ok()));
    states
}

/// The bytes with the hash that goes with them, as somebody who means harm would write it.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 8;
    let hash = twox_hash::XxHash3_64::oneshot(&bytes[..end]);
    bytes[end..].copy_from_slice(&hash.to_le_bytes());
    bytes
}

#[test]
fn cut_longer_or_changed_bytes_are_refused() {
    for (bytes, reads) in written() {
        assert!(reads(&bytes));
        assert!((0..bytes.len()).all(|end| !reads(&bytes[..end])), "cut");
        assert!(!reads(&[&bytes[..], &[0]].concat()));
        for at in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            assert!(!reads(&changed), "bit {at}");
        }
    }
    let all = written();
    for (at, (bytes, _)) in all.iter().enumerate() {
        assert!(
            all.iter().enumerate().all(|(other, (_, reads))| reads(bytes) == (at == other)),
            "kinds differ"
        );
    }
}

#[test]
fn sealed_nonsense_neither_panics_nor_fills_memory() {
    for (bytes, reads) in written() {
        for at in 8..bytes.len() - 8 {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                reads(&sealed(changed.clone()));
                changed[at..bytes.len() - 8].fill(value);
                reads(&sealed(changed));
            }
        }
        for end in 8..bytes.len() - 8 {
            reads(&sealed([&bytes[..end], &[0; 8]].concat()));
        }
    }
}

#[test]
fn another_version_is_said_to_be_one() {
    let mut bytes = Moments::default().to_bytes();
    bytes[6] = 2;
    let wanted = Error::Bytes { what: "state of moments", problem: "they are of another version" };
    assert_eq!(Moments::from_bytes(&sealed(bytes)).unwrap_err(), wanted);
}
