//! Place of an output, and its contents at the first look.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf, absolute};

use tempfile::{NamedTempFile, TempDir};

use super::folder::{FolderLock, is_absent, mode, sync};
use super::hidden::Hidden;
use super::identity::Identity;
use super::kind::{OutputKind, foreign};
use super::rename::rename_new;
use crate::error::{Error, Result, without_path};

/// Characters of the target's name kept in the hidden name: a name may be as long as the file system allows.
const NAME_KEPT: usize = 50;

/// Place of an output, and its contents at the first look.
#[derive(Debug)]
pub struct OutputTarget {
    /// Path as given, for messages.
    pub(super) shown: PathBuf,
    /// Absolute path, independent of the working directory.
    pub(super) path: PathBuf,
    pub(super) found: Present,
}

#[derive(Debug)]
pub(super) enum Present {
    Nothing,
    /// Empty directory.
    Empty(Identity),
    /// Output to be replaced.
    Ours(Identity),
}

impl OutputTarget {
    /// Look at a place before any work is done.
    ///
    /// # Errors
    /// [`Error::Exists`] if an output of this kind is there and `force` is off, [`Error::Foreign`] if
    /// something else is; [`Error::Target`] for a path that does not end in a name; [`Error::Io`].
    pub fn look(path: &Path, kind: &OutputKind, force: bool) -> Result<Self> {
        let shown = path.to_path_buf();
        let Some(name) = path.file_name() else { return Err(Error::Target { path: shown }) };
        let whole = absolute(path).map_err(|error| Error::io("look at", path, error))?;
        // Without the trailing slash, which would make the system follow a link.
        let path = whole.parent().map_or_else(|| whole.clone(), |parent| parent.join(name));
        let mut target = Self { shown, path, found: Present::Nothing };
        target.found = target.find(kind, force)?;
        Ok(target)
    }

    /// Return the path as given.
    #[must_use]
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Return the parent folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Find what is at the path. One look serves both the check of its kind and the final comparison.
    fn find(&self, kind: &OutputKind, force: bool) -> Result<Present> {
        let print = match Identity::of(&self.path) {
            Err(error) if is_absent(&error) => return Ok(Present::Nothing),
            print => print.map_err(|error| Error::io("look at", &self.shown, error))?,
        };
        if let Some(problem) = foreign(kind, &print) {
            return Err(Error::Foreign { path: self.shown.clone(), problem });
        }
        if print.is_empty() {
            return Ok(Present::Empty(print));
        }
        // What cannot be read may have been replaced since it was looked at.
        match self.problem(kind).map_err(|error| self.taken_since(&print).unwrap_or(error))? {
            Some(problem) => Err(Error::Foreign { path: self.shown.clone(), problem }),
            None if force => Ok(Present::Ours(print)),
            None => Err(Error::Exists { path: self.shown.clone() }),
        }
    }

    /// Read why something that may be of a kind must not be replaced.
    fn problem(&self, kind: &OutputKind) -> Result<Option<String>> {
        if (kind.is_ours)(&self.path)? {
            (kind.edited)(&self.path)
        } else {
            Ok(Some(kind.foreign.to_owned()))
        }
    }

    /// Return the error for something that is no longer what it was.
    fn taken_since(&self, before: &Identity) -> Option<Error> {
        let now = Identity::of(&self.path).ok()?;
        before.change(&now).map(|change| self.taken(&change))
    }

    /// Check that the place has not changed.
    ///
    /// # Errors
    /// [`Error::Taken`], [`Error::Io`].
    pub fn check(&self) -> Result<()> {
        let now = match Identity::of(&self.path) {
            Err(error) if is_absent(&error) => return Ok(()),
            now => now.map_err(|error| Error::io("look at", &self.shown, error))?,
        };
        match &self.found {
            Present::Nothing => Err(self.made()),
            Present::Empty(before) | Present::Ours(before) => {
                before.change(&now).map_or(Ok(()), |change| Err(self.taken(&change)))
            }
        }
    }

    /// Return the error for something that appeared at a free place.
    fn made(&self) -> Error {
        let what = match fs::symlink_metadata(&self.path) {
            Ok(facts) if facts.is_symlink() => "a symbolic link",
            Ok(facts) if facts.is_dir() => "a directory",
            _ => "a file",
        };
        self.taken(&format!("{what} was made there"))
    }

    pub(super) fn taken(&self, change: &str) -> Error {
        let problem =
            format!("{change} while this run was at work; it is left as it is, and nothing was written");
        Error::Taken { path: self.shown.clone(), problem }
    }

    /// Create a hidden directory beside it, with the mode of the existing one, or else by the umask.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be created.
    pub fn hidden_directory(&self) -> Result<TempDir> {
        let allowed = fs::Permissions::from_mode(mode(&self.path).unwrap_or(0o777));
        let made =
            tempfile::Builder::new().prefix(&self.prefix()).permissions(allowed).tempdir_in(self.folder());
        made.map_err(|error| Error::io("create a directory beside", &self.shown, without_path(error)))
    }

    /// Create a hidden file beside it.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be created.
    pub fn hidden_file(&self) -> Result<NamedTempFile> {
        let allowed = fs::Permissions::from_mode(0o666);
        let made =
            tempfile::Builder::new().prefix(&self.prefix()).permissions(allowed).tempfile_in(self.folder());
        made.map_err(|error| Error::io("create a file beside", &self.shown, without_path(error)))
    }

    fn prefix(&self) -> String {
        let name = self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        format!(".{}.karl-fast-", name.chars().take(NAME_KEPT).collect::<String>())
    }

    /// Move a whole directory to this place, with the mode of the existing one, and sync it to disk.
    ///
    /// # Errors
    /// [`Error::Taken`] if the place has changed; [`Error::Io`]. The target is then unchanged, unless only
    /// the removal of the old output or the sync of the parent folder failed: then it is the new output.
    pub(crate) fn put_directory(&self, directory: TempDir) -> Result<()> {
        // The umask may have cleared some of its bits.
        if let Some(kept) = mode(&self.path).filter(|&kept| mode(directory.path()) != Some(kept)) {
            let kept = fs::set_permissions(directory.path(), fs::Permissions::from_mode(kept));
            kept.map_err(|error| Error::io("keep the mode of", &self.shown, error))?;
        }
        let print = Identity::of(directory.path()).map_err(|error| self.not_renamed(error))?;
        self.put(&Hidden { print, path: directory.keep() })
    }

    /// Move a whole file to this place, like a directory.
    ///
    /// # Errors
    /// [`Error::Taken`] if the place has changed; [`Error::Io`].
    pub fn put_file(&self, path: PathBuf) -> Result<()> {
        let print = Identity::of(&path).map_err(|error| self.not_renamed(error))?;
        self.put(&Hidden { path, print })
    }

    fn put(&self, new: &Hidden) -> Result<()> {
        let turn = FolderLock::take(self.folder());
        self.check()?;
        match &self.found {
            Present::Nothing => self.place(new)?,
            // This replaces only an empty directory.
            Present::Empty(_) => fs::rename(&new.path, &self.path).map_err(|error| self.not_placed(error))?,
            Present::Ours(old) => self.replace(new, old)?,
        }
        drop(turn);
        sync(self.folder()).map_err(|error| Error::io("sync the folder of", &self.shown, error))
    }

    pub(super) fn place(&self, new: &Hidden) -> Result<()> {
        rename_new(&new.path, &self.path).map_err(|error| self.not_placed(error))
    }

    /// Return the error for a failed rename: something is there now, or the system's reason.
    fn not_placed(&self, error: io::Error) -> Error {
        use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
        let refused = matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory);
        if refused && fs::symlink_metadata(&self.path).is_ok() {
            self.made()
        } else {
            self.not_renamed(error)
        }
    }

    pub(super) fn not_renamed(&self, error: io::Error) -> Error {
        Error::io("rename to", &self.shown, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Put a folder in the place of the file, and fail as reading a folder fails.
    fn replaced_by_a_folder(path: &Path) -> Result<bool> {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
        Err(Error::io("read", path, io::ErrorKind::IsADirectory.into()))
    }

    fn unreadable(path: &Path) -> Result<bool> {
        Err(Error::io("read", path, io::ErrorKind::PermissionDenied.into()))
    }

    #[test]
    fn what_was_replaced_at_the_first_look_was_taken_and_what_cannot_be_read_is_an_error() {
        for (is_ours, taken) in
            [(replaced_by_a_folder as fn(&Path) -> Result<bool>, true), (unreadable, false)]
        {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out");
            fs::write(&path, "old").unwrap();
            let kind = OutputKind { names: None, is_ours, edited: |_| Ok(None), foreign: "is foreign" };
            let error = OutputTarget::look(&path, &kind, true).unwrap_err();
            assert_eq!(matches!(error, Error::Taken { .. }), taken, "{error}");
        }
    }
}
