//! Logs on disk, and what is read from them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use karl_core::sample::Ranking;
use karl_log::detect::Wishes;
use karl_log::export;
use karl_log::export::{Draft, Draw, Prepared, SelectionValues, Shape};
use karl_log::extract;
use karl_log::extract::Compare;
use karl_log::input::source::Source;
use karl_log::read::{ReadSettings, read, read_in_ranges};
use karl_log::{Log, Result, Watch};
use proptest::test_runner::{Config, RngSeed};
use tempfile::TempDir;

/// The same cases on every run.
pub(crate) fn fixed(cases: u32) -> Config {
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..Config::default() }
}

pub(crate) fn settings() -> ReadSettings {
    let wishes = Wishes { max_line_bytes: 1 << 20, ..Wishes::default() };
    let scan = extract::ScanSettings { compare: Some(Compare::Content), ..extract::ScanSettings::default() };
    ReadSettings { wishes, scan, threads: 1 }
}

/// The same, with every record parsed in full.
pub(crate) fn strictly() -> ReadSettings {
    let settings = settings();
    ReadSettings { scan: extract::ScanSettings { strict: true, ..settings.scan }, ..settings }
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Writes the files and names them in order.
pub(crate) fn files(folder: &TempDir, contents: &[impl AsRef<[u8]>]) -> Vec<PathBuf> {
    let write = |(at, bytes): (usize, &_)| {
        let path = folder.path().join(format!("{at:03}.jsonl"));
        fs::write(&path, AsRef::<[u8]>::as_ref(bytes)).unwrap();
        path
    };
    contents.iter().enumerate().map(write).collect()
}

pub(crate) fn open(paths: &[PathBuf]) -> Vec<Source> {
    paths.iter().map(|path| Source::open(path, &path.to_string_lossy()).unwrap()).collect()
}

pub(crate) fn try_read(contents: &[impl AsRef<[u8]>], settings: &ReadSettings) -> Result<Log> {
    let folder = folder();
    read(open(&files(&folder, contents)), settings, &Watch::new())
}

pub(crate) fn log_with(contents: &[impl AsRef<[u8]>], settings: &ReadSettings) -> Log {
    try_read(contents, settings).unwrap()
}

pub(crate) fn log(bytes: impl AsRef<[u8]>) -> Log {
    log_with(&[bytes], &settings())
}

pub(crate) fn log_in_ranges(bytes: impl AsRef<[u8]>, range: u64, threads: usize) -> Log {
    let folder = folder();
    let settings = ReadSettings { threads, ..settings() };
    read_in_ranges(open(&files(&folder, &[bytes])), &settings, range, &Watch::new()).unwrap()
}

/// Everything about the rows that must not depend on how they lay in files.
pub(crate) fn columns(log: &Log) -> impl PartialEq + std::fmt::Debug + use<> {
    let category =
        |column: &karl_log::columns::category::Category| (column.codes().to_vec(), column.names().clone());
    let bits = |column: &Vec<f64>| column.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    (
        (log.keys.clone(), log.digests()),
        log.components.iter().map(bits).collect::<Vec<_>>(),
        (category(&log.group), category(&log.domain), category(&log.partition)),
        log.fingerprints.clone(),
    )
}

/// The bad rows of all files: reason and line.
pub(crate) fn bad(log: &Log) -> Vec<(&'static str, u64)> {
    let places = log.accounts.iter().flat_map(|account| &account.places);
    places.map(|bad| (bad.reason.name(), bad.line)).collect()
}

pub(crate) fn bad_count(log: &Log) -> u64 {
    log.accounts.iter().flat_map(|account| account.bad.values()).sum()
}

/// Law 1.
pub(crate) fn balanced(log: &Log) -> bool {
    log.accounts.iter().map(|account| account.read).sum::<u64>() == log.len() as u64 + bad_count(log)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// Up to `count` rows of a log whose files are still there, in the order given.
pub(crate) fn draft_of(log: &Log, rows: &[i64], count: usize, settings: export::ExportSettings) -> Draft {
    judged(log, rows, count, settings, None)
}

pub(crate) fn judged(
    log: &Log,
    rows: &[i64],
    count: usize,
    settings: export::ExportSettings,
    judge: Option<export::Judge<'_>>,
) -> Draft {
    let numbers = vec![0.5; log.len()];
    let facts = SelectionValues { rewards: &numbers, scores: &numbers, log_weight: &|_| 0.5 };
    let ranking = Ranking::given(rows, log.len()).unwrap();
    let draw = Draw::Ranked { ranking, count, strata: None };
    export::draft(log, facts, draw, settings, judge, &Watch::new()).unwrap()
}

/// The rows of a log of one file in the order of the file.
pub(crate) fn by_line(log: &Log) -> Vec<i64> {
    let mut rows: Vec<i64> = (0..i64::try_from(log.len()).unwrap()).collect();
    rows.sort_by_key(|&row| log.place(u32::try_from(row).unwrap()).unwrap().offset);
    rows
}

/// Every record of one log, drafted in the order of the file.
pub(crate) fn drafted(bytes: impl AsRef<[u8]>, shape: Shape) -> Draft {
    let folder = folder();
    let log = read(open(&files(&folder, &[bytes])), &settings(), &Watch::new()).unwrap();
    draft_of(
        &log,
        &by_line(&log),
        log.len(),
        export::ExportSettings {
            shape,
            allow_secrets: false,
            pseudonyms: None,
            prepared: Prepared::Held,
            max_per_group: None,
            dealt: true,
            seed: 0,
            threads: 2,
        },
    )
}

/// The texts that a draft holds.
pub(crate) fn held(draft: &Draft) -> impl Iterator<Item = &str> {
    draft.lines.iter().flatten().map(String::as_str)
}

pub(crate) fn first(draft: &Draft) -> &str {
    held(draft).next().unwrap()
}

pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
