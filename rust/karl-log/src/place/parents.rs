//! The folders on the way to an output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders made on the way to a target, innermost first; gone again unless they are kept.
pub(crate) struct Parents(Vec<PathBuf>);

impl Parents {
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        let mut made = Self(Vec::new());
        let missing: Vec<&Path> = parent.ancestors().take_while(|path| !path.exists()).collect();
        for path in missing.into_iter().rev() {
            match fs::create_dir(path) {
                Ok(()) => made.0.insert(0, path.to_path_buf()),
                // Somebody else made it meanwhile.
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
        // One that holds something by now is somebody else's too, and stays.
        self.0.iter().for_each(|made| drop(fs::remove_dir(made)));
    }
}
