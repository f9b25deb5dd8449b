//! Reading and writing: scan, lines, values, whole logs, rows and secrets, with naive forms beside them.
//!
//! Category look-ups have no bench of their own, because they have no public door: they are most of `read` on small
//! records.
#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up has failed")]

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use karl_bench::{Folder, Kind, counted, lines, number, rewards};
use karl_core::sample::{Ranking, gumbel};
use karl_log::Watch;
use karl_log::export::{Draw, ExportSettings, Prepared, SelectionValues, Shape, draft};
use karl_log::framing::Lines;
use karl_log::json::project::{Path, PathTree, Scan};
use karl_log::json::reference_parser;
use karl_log::json::scalar::{RewardValue, reward};
use karl_redact::secrets::redacted;

const KINDS: [Kind; 2] = [Kind::Big, Kind::Small];

fn main() {
    divan::main();
}

/// About 12 MB of either kind.
const fn records(kind: Kind) -> usize {
    match kind {
        Kind::Big => 1_000,
        Kind::Small => 40_000,
    }
}

fn bytes(lines: &[String]) -> BytesCount {
    BytesCount::new(lines.iter().map(|line| line.len() + 1).sum::<usize>())
}

#[divan::bench(args = KINDS)]
fn scan_fields(bencher: Bencher, kind: Kind) {
    let lines = lines(kind, records(kind));
    let wanted = PathTree::new(&["id", "group", "reward", "domain"].map(|path| Path::parse(path).unwrap()));
    let mut values = vec![None; wanted.slots()];
    let mut scan = Scan::new(wanted);
    let mut all = || lines.iter().filter(|line| scan.object(line.as_bytes(), &mut values).is_ok()).count();
    bencher.counter(bytes(&lines)).bench_local(|| counted(&mut all));
}

/// Whether a record is JSON, every byte of it, with nothing built.
#[divan::bench(args = KINDS)]
fn check(bencher: Bencher, kind: Kind) {
    let lines = lines(kind, records(kind));
    let whole = |line: &&String| reference_parser::check(line.as_bytes()).is_ok();
    bencher.counter(bytes(&lines)).bench(|| counted(|| lines.iter().filter(whole).count()));
}

/// A parse of the whole record.
#[divan::bench(args = KINDS)]
fn scan_naive(bencher: Bencher, kind: Kind) {
    let lines = lines(kind, records(kind));
    let parse = |line: &&String| serde_json::from_str::<serde_json::Value>(line).is_ok();
    bencher.counter(bytes(&lines)).bench(|| counted(|| lines.iter().filter(parse).count()));
}

#[divan::bench(args = KINDS)]
fn split_lines(bencher: Bencher, kind: Kind) {
    let lines = lines(kind, records(kind));
    let text = lines.join("\n");
    bencher.counter(bytes(&lines)).bench(|| {
        counted(|| {
            let mut pieces = Lines::new(text.as_bytes(), 0, u64::MAX, 1 << 26);
            std::iter::from_fn(|| pieces.next().unwrap().is_some().then_some(())).count()
        })
    });
}

#[divan::bench]
fn parse_rewards(bencher: Bencher) {
    let texts: Vec<String> = (0..100_000).map(|index| format!("{:.4}", number(index))).collect();
    let is_number = |text: &&String| matches!(reward(Some(text.as_bytes())), RewardValue::Value(_));
    bencher
        .counter(ItemsCount::new(texts.len()))
        .bench(|| counted(|| texts.iter().filter(is_number).count()));
}

#[divan::bench(args = KINDS)]
fn read(bencher: Bencher, kind: Kind) {
    let folder = Folder::new(kind, records(kind)).unwrap();
    bencher.counter(bytes(&lines(kind, records(kind)))).bench(|| counted(|| folder.read().unwrap()));
}

/// Drawn records parsed, cleaned of secrets and rendered.
#[divan::bench(args = [Shape::Chat, Shape::Text, Shape::Raw])]
fn make_rows(bencher: Bencher, shape: Shape) {
    let folder = Folder::new(Kind::Big, 500).unwrap();
    let log = folder.read().unwrap();
    let numbers = rewards(log.len());
    let keys = gumbel::keys(&numbers, &log.keys, 7).unwrap();
    let log_weight = |row: usize| numbers[row];
    let facts = SelectionValues { rewards: &numbers, scores: &numbers, log_weight: &log_weight };
    let draw = || Draw::Ranked { ranking: Ranking::new(keys.clone()).unwrap(), count: 250, strata: None };
    let settings = ExportSettings {
        shape,
        allow_secrets: false,
        pseudonyms: None,
        prepared: Prepared::Held,
        max_per_group: None,
        dealt: false,
        seed: 0,
        threads: 1,
    };
    let watch = Watch::new();
    bencher
        .counter(ItemsCount::new(250_usize))
        .bench(|| counted(|| draft(&log, facts, draw(), settings, None, &watch).unwrap()));
}

#[divan::bench]
fn redact(bencher: Bencher) {
    let lines = lines(Kind::Big, 200);
    let all = || lines.iter().map(|line| redacted(line).len()).sum::<usize>();
    bencher.counter(bytes(&lines)).bench(|| counted(all));
}
