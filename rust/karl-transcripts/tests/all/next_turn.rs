//! Precision and recall of the rules for the user's next turn, on labelled turns of real sessions.
//!
//! `tests/golden/next_turn.json` has the labels with hashes of the turns, and the counts. The turns
//! themselves are in the test data: `KARL_FAST_TEST_DATA` names the folder with a part of them, and
//! `KARL_FAST_TEST_ENTIRE` the file that `karl-fast convert` makes of the branch `entire/checkpoints/v1` of
//! `entireio/cli`.

#![allow(clippy::panic, clippy::print_stderr, reason = "a helper that fails, fails its test")]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use karl_core::rng::id128;
use karl_log::cancel::Watch;
use karl_log::input::source::Source;
use karl_transcripts::convert::{self, ConvertSettings, Rate, convert};
use karl_transcripts::outcomes::next_turn::{NextTurn, RULES, Verdict, judge, matches, next_turns};
use serde::Deserialize;
use serde_json::{Value, json};

/// Counts of a rule or verdict: turns that match, and those among them with that label.
type Counts = BTreeMap<String, (u64, u64)>;

/// Hash, half, data, label of the first and second pass, label.
type Label = (String, String, String, Option<u8>, Option<u8>, Option<u8>);

#[derive(Deserialize)]
struct Golden {
    labels: Vec<Label>,
    /// By half and data.
    measured: BTreeMap<String, Counts>,
}

fn golden() -> Golden {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/next_turn.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Return the share that is right.
fn share((matched, right): (u64, u64)) -> f64 {
    right as f64 / matched as f64
}

/// Return the counts of a rule in all data of the halves with that name.
fn sum(golden: &Golden, half: &str, rule: &str) -> (u64, u64) {
    let counts = golden.measured.iter().filter(|(name, _)| name.starts_with(half));
    let of_rule = counts.filter_map(|(_, counts)| counts.get(rule));
    of_rule.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn a_rule_is_on_if_it_matches_five_turns_and_is_right_on_four_of_five() {
    let golden = golden();
    for rule in &RULES {
        let counts = sum(&golden, "", rule.name);
        assert_eq!(rule.on, counts.0 >= 5 && share(counts) >= 0.8, "{}: {counts:?}", rule.name);
    }
}

#[test]
fn the_verdicts_are_right_on_turns_that_the_rules_were_not_written_for() {
    let golden = golden();
    assert!(share(sum(&golden, "held_out", "corrects")) >= 0.8);
    assert!(share(sum(&golden, "held_out", "goes_on")) >= 0.9);
}

#[test]
fn the_counts_are_those_of_the_data() {
    let golden = golden();
    let mut found: BTreeMap<String, Counts> = BTreeMap::new();
    for (data, variable, within) in
        [("shared", "KARL_FAST_TEST_DATA", "data/claude-code"), ("public", "KARL_FAST_TEST_ENTIRE", ".")]
    {
        let Some(folder) = std::env::var_os(variable) else {
            eprintln!("skipped: {variable} does not name the data");
            continue;
        };
        let place = PathBuf::from(folder);
        let place = if place.is_dir() { place.join(within) } else { place };
        let turns = if place.is_dir() { converted(&place) } else { turns_of(&place) };
        for (hash, half, _, _, _, label) in golden.labels.iter().filter(|label| label.2 == data) {
            let turn = turns.get(hash).unwrap_or_else(|| panic!("no turn has the hash {hash}"));
            count(turn, *label, found.entry(format!("{half}/{data}")).or_default());
        }
    }
    let differs = found.iter().any(|(name, counts)| golden.measured.get(name) != Some(counts));
    assert!(!differs, "measured: {}", json!(found));
}

fn count(turn: &NextTurn, label: Option<u8>, counts: &mut Counts) {
    let mut add = |name: &str, is_right: bool| {
        let sum = counts.entry(name.to_owned()).or_default();
        *sum = (sum.0 + 1, sum.1 + u64::from(is_right));
    };
    let verdict = judge(&turn.text, &turn.before).map(|judgement| judgement.verdict);
    let Some(label) = label else {
        assert_eq!(verdict, None, "a turn that a tool wrote is not judged");
        return;
    };
    let is = |verdict: Verdict| (verdict == Verdict::Corrects) == (label == 1);
    for rule in matches(&turn.text, &turn.before) {
        add(rule.name, is(rule.verdict));
    }
    match verdict {
        Some(Verdict::Corrects) => add("corrects", label == 1),
        Some(Verdict::GoesOn) => add("goes_on", label == 0),
        None => {}
    }
    // All turns, and those that correct.
    add("turns", label == 1);
}

/// Return the next turns of transcripts in a folder.
fn converted(folder: &Path) -> HashMap<String, NextTurn> {
    let made = tempfile::tempdir().unwrap();
    let path = made.path().join("trajectories.jsonl");
    let settings = ConvertSettings {
        kind: None,
        rate: Rate::Log,
        max_line_bytes: 64 << 20,
        threads: 2,
        abandoned: false,
        protection: karl_redact::Protection::default(),
    };
    let target = convert::target(&path, false).unwrap();
    convert(sources(folder), &target, &settings, &Watch::default()).unwrap();
    turns_of(&path)
}

/// Return the next turns of the sessions in a file of trajectories, by the hash of their texts.
fn turns_of(trajectories: &Path) -> HashMap<String, NextTurn> {
    let text = std::fs::read_to_string(trajectories).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let own = lines.filter(|record| record["parent"].is_null());
    let turns = own.flat_map(|record| {
        let messages = record["messages"].as_array().unwrap();
        let part = |message: &'_ Value, key: &str| message[key].as_str().unwrap_or_default().to_owned();
        let said: Vec<_> = messages.iter().map(|one| (part(one, "role"), part(one, "content"))).collect();
        next_turns(said.iter().map(|(role, text)| (&role[..], &text[..])))
    });
    turns.map(|turn| (format!("{:032x}", id128(turn.text.as_bytes())), turn)).collect()
}

fn sources(folder: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "jsonl") {
            let source = Source::open(&path, &path.display().to_string()).unwrap();
            found.push(Source { optional: true, ..source });
        }
    }
    found
}
