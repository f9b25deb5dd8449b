//! Finished outputs under their hidden names.

use std::path::PathBuf;

use super::identity::Identity;

/// Finished output under its hidden name; removed on drop if it is still there.
pub(super) struct Hidden {
    pub(super) path: PathBuf,
    pub(super) print: Identity,
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if self.print.stands_at(&self.path) {
            let _nothing_to_do_about_it = self.print.remove(&self.path);
        }
    }
}
