//! SWE-bench's reports on runs of SWE-agent, `results.json`: each is read once, however many runs it judges.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::report::Made;
use super::text_parts::list;
use crate::detect::sidecar;
use crate::json::reference;

/// The name of the file.
const NAME: &str = "results.json";

/// The reports that were read.
#[derive(Default)]
pub(super) struct Verdicts(Mutex<HashMap<PathBuf, Option<Arc<SweBenchReport>>>>);

/// The tasks that a report judges.
struct SweBenchReport {
    solved: HashSet<String>,
    failed: HashSet<String>,
}

impl Verdicts {
    /// Whether the report beside a run, or in the folder above its own, says that its task was solved: 1 or 0. None without
    /// a report, and where it was not judged; a report that cannot be read is noted.
    pub(super) fn of(&self, file: &Path, instance: &str, made: &mut Made) -> Option<f64> {
        // Standard input has nothing beside it.
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
        let whole = reference::parse(&sidecar::read(path).ok()?).ok()?;
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
