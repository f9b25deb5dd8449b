//! Parent folders of an output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders created for a target, innermost first; removed on drop unless they are kept.
pub(crate) struct Parents(Vec<PathBuf>);

impl Parents {
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        let mut made = Self(Vec::new());
        let missing: Vec<&Path> = parent.ancestors().take_while(|path| !path.exists()).collect();
        for path in missing.into_iter().rev() {
            match fs::create_dir(path) {
                Ok(()) => made.0.insert(0, path.to_path_buf()),
                // Another process created it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        if parent.is_dir() { Ok(made) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        // A folder that is no longer empty is in use and stays.
        self.0.iter().for_each(|made| drop(fs::remove_dir(made)));
    }
}
