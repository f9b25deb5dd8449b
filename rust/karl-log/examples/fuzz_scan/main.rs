//! Differential fuzzer: the fast scan against the reference parser, for a given number of texts made from a
//! seed.
//!
//! ```sh
//! cargo run --release -p karl-log --example fuzz_scan -- 1000000 7           # executions, seed
//! cargo run --release -p karl-log --example fuzz_scan -- 1000000 7 --print   # one line a text, for another parser
//! ```
//!
//! [`texts`] makes the texts: documents of a small corpus and of a generator of JSON, most of them damaged by
//! mutations. [`laws`] are checked for every text; a panic counts as a broken law. Equal arguments give equal
//! texts on every machine. `tests/robustness/test_fuzz.py` compares the output of `--print` with Python's
//! `json`.

mod laws;
mod texts;

use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use laws::{Kind, Paths};
use texts::Texts;

/// Number of texts by kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    whole: u64,
    damaged_unseen: u64,
    refused: u64,
}

/// Check `count` texts, and pass each to `see`.
fn fuzz(
    count: u64,
    seed: u64,
    mut see: impl FnMut(&Paths, &[u8]) -> io::Result<()>,
) -> Result<Counts, String> {
    let (paths, mut texts, mut counts) = (Paths::new(), Texts::new(seed), Counts::default());
    for number in 0..count {
        let text = texts.next();
        let broken = |law: &str| format!("text {number} of seed {seed}: {law}\n{}", text.escape_ascii());
        let judged = catch_unwind(AssertUnwindSafe(|| laws::judge(&text, &paths)));
        match judged.map_err(|_| broken("a panic"))?.map_err(|law| broken(&law))? {
            Kind::Whole => counts.whole += 1,
            Kind::DamageUnseen => counts.damaged_unseen += 1,
            Kind::Refused => counts.refused += 1,
        }
        see(&paths, &text).map_err(|error| error.to_string())?;
    }
    Ok(counts)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (Ok(count), Ok(seed)) = (number(0, 100_000), number(1, 0)) else {
        return say("usage: fuzz_scan [EXECUTIONS [SEED [--print]]]");
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let print = arguments.get(2).is_some_and(|word| word == "--print");
    let see = |paths: &Paths, text: &[u8]| if print { laws::print(&mut out, paths, text) } else { Ok(()) };
    match fuzz(count, seed, see) {
        Err(broken) => say(&broken),
        Ok(counts) => {
            let told = writeln!(io::stderr(), "{count} executions of seed {seed}: {counts:?}");
            if told.and_then(|()| out.flush()).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

fn say(problem: &str) -> ExitCode {
    // If this fails, there is no other place to report it.
    let _told = writeln!(io::stderr(), "{problem}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_thousand_texts_break_no_law_and_are_of_every_kind() {
        let counts = fuzz(30_000, 1, |_, _| Ok(())).unwrap_or_else(|broken| unreachable!("{broken}"));
        assert!(counts.whole > 3_000 && counts.damaged_unseen > 300 && counts.refused > 10_000, "{counts:?}");
    }

    #[test]
    fn the_same_seed_makes_the_same_texts() {
        let (mut first, mut second, mut other) = (Texts::new(5), Texts::new(5), Texts::new(6));
        assert!((0..1000).all(|_| first.next() == second.next()));
        assert!((0..1000).any(|_| first.next() != other.next()));
    }
}
