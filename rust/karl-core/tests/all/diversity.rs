//! Measures of diversity: the same bits for any number of threads, and closed forms.

use karl_core::diversity::{
    Sequences, Smoothing, best_at_k, distinct_n, mutual_information, ngram_gram, pass_at_k, self_bleu,
    vendi_ngrams,
};
use karl_core::{Groups, Result};

const ROWS: usize = 40_000;

/// Numbers that look drawn, from a linear congruence.
fn numbers(count: usize, below: u64) -> Vec<i64> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((state >> 33) % below).unwrap_or(0)
    };
    (0..count).map(|_| next()).collect()
}

/// Sequences of 0 to 5 tokens.
fn offsets() -> Vec<i64> {
    let ends = numbers(ROWS, 6).into_iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn measures_of_sequences_do_not_depend_on_threads() -> Result<()> {
    let offsets = offsets();
    for names in [4, 3000] {
        let tokens = Groups::from_ids(&numbers(usize::try_from(offsets[ROWS]).unwrap_or(0), names))?;
        let sequences = Sequences::new(&tokens, &offsets)?;
        let all = |threads| -> Result<Vec<u64>> {
            let mut found = self_bleu(sequences, 3, Smoothing::AddOne, threads)?;
            found.extend([distinct_n(sequences, 2, threads)?, vendi_ngrams(sequences, 1, threads)?]);
            Ok(bits(&found))
        };
        let alone = all(1)?;
        for threads in [2, 3, 8] {
            assert_eq!(all(threads)?, alone, "{names} names, {threads} threads");
        }
    }
    Ok(())
}

#[test]
fn measures_of_rows_do_not_depend_on_threads() -> Result<()> {
    let (inputs, outputs) = (numbers(ROWS, 50), numbers(2 * ROWS, 7000).split_off(ROWS));
    let rewards: Vec<f64> = outputs.iter().map(|&output| output as f64 / 7.0).collect();
    let (x, y) = (Groups::from_ids(&inputs)?, Groups::from_ids(&outputs)?);
    let counts: Vec<i64> = inputs.iter().map(|&input| input + 10).collect();
    let all = |threads| -> Result<Vec<u64>> {
        let mut found = best_at_k(&rewards, &x, 5, threads)?;
        found.extend(pass_at_k(&counts, &inputs, 5, threads)?);
        found.push(mutual_information(&x, &y, threads)?.mutual);
        Ok(bits(&found))
    };
    let alone = all(1)?;
    for threads in [2, 3, 8] {
        assert_eq!(all(threads)?, alone, "{threads} threads");
    }
    Ok(())
}

#[test]
fn the_smaller_gram_is_of_sequences_or_of_ngrams_and_its_trace_is_one() -> Result<()> {
    let tokens = Groups::from_ids(&[0, 1, 1, 2, 0, 1, 3, 4, 5, 6])?;
    for (offsets, size) in [(&[0_i64, 2, 4, 6, 8, 10][..], 5), (&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 7)] {
        let gram = ngram_gram(Sequences::new(&tokens, offsets)?, 1, 1)?;
        let trace: f64 = gram.values.iter().step_by(gram.size + 1).sum();
        assert_eq!((gram.size, gram.values.len()), (size, size * size));
        assert!((trace - 1.0).abs() < 1e-12);
    }
    Ok(())
}

#[test]
fn an_order_beyond_every_sequence_costs_nothing() -> Result<()> {
    let tokens = Groups::from_ids(&[0, 1, 0, 1])?;
    let sequences = Sequences::new(&tokens, &[0, 2, 4])?;
    assert!(distinct_n(sequences, usize::MAX, 1)?.is_nan());
    assert_eq!(self_bleu(sequences, usize::MAX, Smoothing::None, 1)?, [0.0, 0.0]);
    Ok(())
}
