//! What the benches measure with: seeded records and columns, and the one place that instruction counts look at.

use std::fmt::Write;
use std::path::PathBuf;

use karl_core::Groups;
use karl_core::rng::{Key, Purpose, uniform};
use karl_log::detect::Wishes;
use karl_log::extract;
use karl_log::input::source::Source;
use karl_log::read::{ReadSettings, read};
use karl_log::{Log, Result, Watch};
use tempfile::TempDir;

const GROUP: usize = 8;

/// Runs what is measured. `instructions.py` counts between its call and its return, and so nothing of what prepares.
#[inline(never)]
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

/// The size of a record: about 12 KB with a conversation, or 300 bytes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A conversation before the reward.
    Big,
    /// A short text.
    Small,
}

/// A number in (0, 1) that follows from `index` alone.
#[must_use]
pub fn number(index: usize) -> f64 {
    uniform(1, Key::of_index(index), Purpose::Draw)
}

/// Rewards of mean 0.6.
#[must_use]
pub fn rewards(rows: usize) -> Vec<f64> {
    (0..rows).map(|row| 0.4 + 0.4 * number(row)).collect()
}

/// Groups of 8, side by side or in no order.
///
/// # Errors
/// None for fewer rows than a `u32` can number.
pub fn groups(rows: usize, shuffled: bool) -> karl_core::Result<Groups<'static>> {
    let mut order: Vec<usize> = (0..rows).collect();
    if shuffled {
        order.sort_by(|&a, &b| number(a).total_cmp(&number(b)));
    }
    let codes: Vec<u32> = order.iter().filter_map(|row| u32::try_from(row / GROUP).ok()).collect();
    Groups::from_codes(codes, rows.div_ceil(GROUP))
}

/// The keys of rows without ids.
#[must_use]
pub fn keys(rows: usize) -> Vec<Key> {
    (0..rows).map(Key::of_index).collect()
}

/// The lines of a log.
#[must_use]
pub fn lines(kind: Kind, records: usize) -> Vec<String> {
    (0..records).map(|index| record(kind, index, records)).collect()
}

fn record(kind: Kind, index: usize, records: usize) -> String {
    let body = match kind {
        Kind::Big => format!("\"messages\": [{}]", conversation(index)),
        Kind::Small => format!("\"text\": \"{}\"", text(index, 40)),
    };
    // Groups of 8 in no order: a prime that does not divide the number of records visits every place once.
    let group = index * 7919 % records / GROUP;
    format!(
        "{{\"id\": \"run-{index:08}\", \"group\": \"task-{group:07}\", \"domain\": \"d{}\", \
         \"meta\": {{\"group\": \"decoy\", \"reward\": null}}, {body}, \"reward\": {:.4}, \
         \"reward_components\": {{\"outcome\": {:.4}}}}}",
        group % 5,
        number(index),
        number(index + 1),
    )
}

fn conversation(index: usize) -> String {
    let mut out = String::from(r#"{"role": "user", "content": "What fails, and why?"}"#);
    for turn in 0..12 {
        let (call, seen) = (text(index + turn, 150), text(index * 31 + turn, 700));
        let _ = write!(
            out,
            r#", {{"role": "assistant", "content": "{call}"}}, {{"role": "tool", "name": "shell", "content": "{seen}"}}"#
        );
    }
    out + r#", {"role": "assistant", "content": "Done."}"#
}

/// A JSON text, without its quotes, with what misleads a scan for keys.
fn text(seed: usize, length: usize) -> String {
    const WORDS: [&str; 8] = [
        "the",
        "test",
        "\\\"reward\\\": 1",
        "{[",
        "C:\\\\src",
        "passes\\n",
        "\\u5956",
        "because it was empty",
    ];
    let mut out = String::new();
    let mut at = seed;
    while out.len() < length {
        at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        out.push_str(WORDS[at >> 61]);
        out.push(' ');
    }
    out
}

/// A log in a folder that goes with it.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
}

impl Folder {
    /// Writes the log.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn new(kind: Kind, records: usize) -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("log.jsonl"), lines(kind, records).join("\n") + "\n")?;
        Ok(Self { folder })
    }

    /// The log's path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("log.jsonl")
    }

    /// Reads the log with one thread.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read(&self) -> Result<Log> {
        let settings = ReadSettings {
            wishes: Wishes { max_line_bytes: 1 << 26, ..Wishes::default() },
            scan: extract::ScanSettings::default(),
            threads: 1,
        };
        read(vec![Source::open(&self.path(), "log.jsonl")?], &settings, &Watch::new())
    }
}
