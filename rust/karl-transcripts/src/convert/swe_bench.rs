//! SWE-bench's reports on runs of SWE-agent, `results.json`: each is read once, for any number of runs.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use karl_log::detect::read_sidecar;
use karl_log::json::reference_parser;
use serde_json::Value;

use super::report::Made;
use super::text_parts::list;

/// Name of the file.
const NAME: &str = "results.json";

/// Reports read so far.
#[derive(Default)]
pub(super) struct SweBenchReports(Mutex<HashMap<PathBuf, Option<Arc<SweBenchReport>>>>);

/// Tasks in a report.
struct SweBenchReport {
    solved: HashSet<String>,
    failed: HashSet<String>,
}

impl SweBenchReports {
    /// Return 1 if the report beside a run, or one folder up, lists its task as solved, else 0. None without
    /// a report, and for a task that is not in it; an unreadable report is noted.
    pub(super) fn of(&self, file: &Path, instance: &str, made: &mut Made) -> Option<f64> {
        // Standard input has no such place.
        let own = file.parent().filter(|_| file != Path::new("-"));
        let folders = [own, own.and_then(Path::parent)].into_iter().flatten();
        let path = folders.map(|folder| folder.join(NAME)).find(|path| path.exists())?;
        let Some(report) = self.read(path) else {
            made.note("report_unread");
            return None;
        };
        let judged = |reward, tasks: &HashSet<String>| tasks.contains(instance).then_some(reward);
        judged(1.0, &report.solved).or_else(|| judged(0.0, &report.failed))
    }

    fn read(&self, path: PathBuf) -> Option<Arc<SweBenchReport>> {
        // Held while it is read: the other threads would read the same one.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(path).or_insert_with_key(|path| SweBenchReport::read(path).map(Arc::new)).clone()
    }
}

impl SweBenchReport {
    fn read(path: &Path) -> Option<Self> {
        let whole = reference_parser::parse(&read_sidecar(path).ok()?).ok()?;
        let tasks = |keys: &[&str]| {
            keys.iter()
                .flat_map(|key| list(&whole, key))
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        Some(Self { solved: tasks(&["resolved_ids"]), failed: tasks(&["unresolved_ids", "empty_patch_ids"]) })
    }
}
