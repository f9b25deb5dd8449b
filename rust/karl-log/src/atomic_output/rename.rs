//! Renames that replace nothing, and swaps of two names, with fallbacks for file systems without them.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Rename a file or directory to a free name.
///
/// # Errors
/// Of the kind `AlreadyExists` if the name is taken.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(error) if is_unknown(error) => without_flags(from, to),
        renamed => renamed.map_err(io::Error::from),
    }
}

/// Swap two names; return `false` if the file system cannot.
pub(super) fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Err(error) if is_unknown(error) => Ok(false),
        swapped => swapped.map(|()| true).map_err(io::Error::from),
    }
}

/// Return whether an error means that the system or the file system does not support a flag.
fn is_unknown(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::INVAL | Errno::NOTSUP)
}

/// Rename without flags. A plain rename of a directory fails if the name is taken, except by an empty
/// directory; a hard link of a file always does.
fn without_flags(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    if fs::symlink_metadata(from)?.is_dir() {
        return fs::rename(from, to);
    }
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // No hard links here: create a new file under the name, which fails if it is taken, and replace that.
        Err(_) => File::create_new(to).and_then(|_| fs::rename(from, to)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_name_that_is_taken_is_never_given_again() {
        for rename in [rename_new, without_flags] {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::create_dir(at("directory")).unwrap();
            fs::create_dir(at("empty")).unwrap();
            fs::write(at("file"), "f").unwrap();
            symlink("empty", at("link")).unwrap();
            symlink("nowhere", at("dangling")).unwrap();
            for from in ["directory", "file"] {
                for to in ["empty", "file", "directory", "link", "dangling"] {
                    if from != to {
                        let error = rename(&at(from), &at(to)).unwrap_err();
                        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{from} to {to}");
                    }
                }
                rename(&at(from), &at("free")).unwrap();
                rename(&at("free"), &at(from)).unwrap();
            }
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
        }
    }
}
