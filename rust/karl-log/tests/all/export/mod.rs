//! Exports of chosen records: rows, drafts, splits.

mod drafts;
mod pairs;
mod rows;
mod splits;

use karl_log::export::{ExportSettings, Prepared, Shape};
use karl_log::read::read;
use karl_log::{Log, Watch};
use serde_json::Value;

use crate::logs::{files, folder, open, settings};

const CHAT: ExportSettings = ExportSettings {
    shape: Shape::Chat,
    allow_secrets: false,
    pseudonyms: None,
    prepared: Prepared::Held,
    max_per_group: None,
    dealt: true,
    seed: 0,
    threads: 2,
};

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect::<Vec<_>>().concat()
}

/// A log whose files stay.
fn kept(text: &str) -> (tempfile::TempDir, Log) {
    let folder = folder();
    let log = read(open(&files(&folder, &[text])), &settings(), &Watch::new()).unwrap();
    (folder, log)
}
