//! Place of an output: its contents at the first look, and the final rename, swap or refusal.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf, absolute};
use std::thread;
use std::time::Duration;

use tempfile::{NamedTempFile, TempDir};

use super::identity::Identity;
use super::rename::{exchange, rename_new};
use crate::error::{Error, Result, without_path};

/// Characters of the target's name kept in the hidden name: a name may be as long as the file system allows.
const NAME_KEPT: usize = 50;

/// Place of an output, and its contents at the first look.
#[derive(Debug)]
pub struct OutputTarget {
    /// Path as given, for messages.
    shown: PathBuf,
    /// Absolute path, independent of the working directory.
    path: PathBuf,
    found: Present,
}

#[derive(Debug)]
enum Present {
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
            Present::Nothing => Err(self.appeared()),
            Present::Empty(before) | Present::Ours(before) => {
                before.change(&now).map_or(Ok(()), |change| Err(self.taken(&change)))
            }
        }
    }

    /// Return the error for something that appeared at a free place.
    fn appeared(&self) -> Error {
        let what = match fs::symlink_metadata(&self.path) {
            Ok(facts) if facts.is_symlink() => "a symbolic link",
            Ok(facts) if facts.is_dir() => "a directory",
            _ => "a file",
        };
        self.taken(&format!("{what} was made there"))
    }

    fn taken(&self, change: &str) -> Error {
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
        let created =
            tempfile::Builder::new().prefix(&self.prefix()).permissions(allowed).tempdir_in(self.folder());
        created.map_err(|error| Error::io("create a directory beside", &self.shown, without_path(error)))
    }

    /// Create a hidden file beside it.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be created.
    pub fn hidden_file(&self) -> Result<NamedTempFile> {
        let allowed = fs::Permissions::from_mode(0o666);
        let created =
            tempfile::Builder::new().prefix(&self.prefix()).permissions(allowed).tempfile_in(self.folder());
        created.map_err(|error| Error::io("create a file beside", &self.shown, without_path(error)))
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

    fn place(&self, new: &Hidden) -> Result<()> {
        rename_new(&new.path, &self.path).map_err(|error| self.not_placed(error))
    }

    /// Return the error for a failed rename: something is there now, or the system's reason.
    fn not_placed(&self, error: io::Error) -> Error {
        use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
        let refused = matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory);
        if refused && fs::symlink_metadata(&self.path).is_ok() {
            self.appeared()
        } else {
            self.not_renamed(error)
        }
    }

    fn not_renamed(&self, error: io::Error) -> Error {
        Error::io("rename to", &self.shown, error)
    }

    /// Swap the new output with the old one; remove the old one if it is unchanged since the first look.
    fn replace(&self, new: &Hidden, old: &Identity) -> Result<()> {
        match exchange(&new.path, &self.path) {
            Ok(true) => {}
            Ok(false) => return self.replace_by_two_renames(new, old),
            Err(error) if is_absent(&error) => return self.place(new),
            Err(error) => return Err(self.not_renamed(error)),
        }
        let Err(error) = self.is_old(old, &new.path) else { return remove(old, &new.path) };
        let back = exchange(&new.path, &self.path).is_ok_and(|swapped| swapped);
        Err(if back && new.print.stands_at(&new.path) { error } else { self.kept_error(&new.path) })
    }

    /// Do the same on file systems that cannot swap: for a moment nothing is there, never half an output.
    fn replace_by_two_renames(&self, new: &Hidden, old: &Identity) -> Result<()> {
        let mut aside = new.path.as_os_str().to_owned();
        aside.push(".old");
        let aside = PathBuf::from(aside);
        rename_new(&self.path, &aside).map_err(|error| self.not_renamed(error))?;
        match self.is_old(old, &aside).and_then(|()| self.place(new)) {
            Ok(()) => remove(old, &aside),
            Err(error) if rename_new(&aside, &self.path).is_ok() => Err(error),
            Err(_) => Err(self.kept_error(&aside)),
        }
    }

    /// Reject a replaced output that differs from the first look.
    fn is_old(&self, old: &Identity, path: &Path) -> Result<()> {
        let now = Identity::of(path).map_err(|error| Error::io("look at", &self.shown, error))?;
        old.change(&now).map_or(Ok(()), |change| Err(self.taken(&change)))
    }

    /// Return the error for an old output that could not be moved back, with its path.
    fn kept_error(&self, path: &Path) -> Error {
        let problem = format!(
            "something else was put there while this run was at work; what was there before is now {}",
            path.display()
        );
        Error::Taken { path: self.shown.clone(), problem }
    }
}

/// Remove a replaced output, even if it is read-only.
fn remove(old: &Identity, path: &Path) -> Result<()> {
    if old.entries().is_some() {
        let _may_not_be_ours = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    }
    let doing = "remove the output before, in whose place the new one is:";
    old.remove(path).map_err(|error| Error::io(doing, path, error))
}

/// Kind of output that may be replaced on request.
#[derive(Debug)]
pub struct OutputKind {
    /// Names of all files in such a directory; `None` for a single file.
    pub names: Option<&'static [&'static str]>,
    /// Check that an output is of this kind; a directory has only regular files of these names by then.
    pub is_ours: fn(&Path) -> Result<bool>,
    /// Description of edits to an output since it was written, if any.
    pub edited: fn(&Path) -> Result<Option<String>>,
    /// Message for anything else.
    pub foreign: &'static str,
}

/// Parquet file.
pub const PARQUET: OutputKind = OutputKind {
    names: None,
    is_ours: is_parquet,
    edited: |_| Ok(None),
    foreign: "is not a file of Parquet",
};

fn is_parquet(path: &Path) -> Result<bool> {
    let io = |error| Error::io("read", path, error);
    let mut begin = Vec::new();
    File::open(path).map_err(io)?.take(4).read_to_end(&mut begin).map_err(io)?;
    Ok(begin == b"PAR1")
}

/// Return why something cannot be of a kind: a link, a file instead of a directory or the reverse, a
/// directory with other contents.
fn foreign(kind: &OutputKind, print: &Identity) -> Option<String> {
    let Some(names) = kind.names else {
        return (!print.is_file()).then(|| kind.foreign.to_owned());
    };
    let Some(mut entries) = print.entries() else { return Some("is not a directory".to_owned()) };
    entries.find_map(|(name, is_file)| match (names.iter().any(|known| name == *known), is_file) {
        (true, true) => None,
        (true, false) => Some(format!("holds {}, which is not a file", name.to_string_lossy())),
        (false, _) => Some(format!("holds {}, which karl-fast did not write", name.to_string_lossy())),
    })
}

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

/// Number and length of waits for another run that puts its result into the same folder.
const TURNS: (usize, Duration) = (500, Duration::from_millis(10));

/// Lock that orders the runs that put their results into one folder.
struct FolderLock {
    _locked: Option<File>,
}

impl FolderLock {
    /// Wait a while for others. A folder that cannot be locked or listed has no lock: each run then relies on
    /// its own checks.
    fn take(folder: &Path) -> Self {
        let Ok(file) = File::open(folder) else { return Self { _locked: None } };
        for _ in 0..TURNS.0 {
            match file.try_lock() {
                Err(fs::TryLockError::WouldBlock) => thread::sleep(TURNS.1),
                _ => break,
            }
        }
        Self { _locked: Some(file) }
    }
}

/// Return whether an error means that nothing is there, rather than that this is unknown.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Return the mode of a directory that its owner can write to.
fn mode(path: &Path) -> Option<u32> {
    let facts = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
    Some(facts.permissions().mode() & 0o7777).filter(|mode| mode & 0o700 == 0o700)
}

/// Sync a folder to disk. One that may not be listed cannot be opened for that: the system writes its names
/// at a time of its choosing.
///
/// # Errors
/// Error of the system.
pub fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        folder => folder?.sync_all(),
    }
}

/// Finished output under its hidden name; removed on drop if it is still there.
struct Hidden {
    path: PathBuf,
    print: Identity,
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if self.print.stands_at(&self.path) {
            let _ignore_cleanup_error = self.print.remove(&self.path);
        }
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

    const OURS: OutputKind = OutputKind {
        names: Some(&["old"]),
        is_ours: |_| Ok(true),
        edited: |_| Ok(None),
        foreign: "is foreign",
    };

    /// Return a finished directory, an older output, and the target with its first look.
    fn staged(folder: &Path) -> (Hidden, OutputTarget) {
        let path = folder.join("out");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("old"), "").unwrap();
        let target = OutputTarget::look(&path, &OURS, true).unwrap();
        let new = target.hidden_directory().unwrap();
        fs::write(new.path().join("new"), "").unwrap();
        (Hidden { print: Identity::of(new.path()).unwrap(), path: new.keep() }, target)
    }

    type Replace = fn(&OutputTarget, &Hidden, &Identity) -> Result<()>;

    const WAYS: [Replace; 2] = [OutputTarget::replace, OutputTarget::replace_by_two_renames];

    fn replace(way: Replace, new: Hidden, target: &OutputTarget) -> Result<()> {
        let Present::Ours(old) = &target.found else { panic!("{target:?}") };
        let done = way(target, &new, old);
        drop(new);
        done
    }

    #[test]
    fn an_error_of_the_system_keeps_its_number_and_loses_the_path_of_nobody() {
        let target =
            OutputTarget { shown: "/proc/out".into(), path: "/proc/out".into(), found: Present::Nothing };
        let error = target.hidden_directory().unwrap_err();
        let Error::Io { source, .. } = error else { panic!("{error}") };
        assert!(source.raw_os_error().is_some() && !source.to_string().contains("path"), "{source}");
        let own = without_path(io::Error::other("no (os error"));
        assert_eq!((own.raw_os_error(), own.to_string().as_str()), (None, "no (os error"));
    }

    #[test]
    fn the_new_output_takes_the_place_of_the_old_one_and_touches_no_neighbour() {
        for way in WAYS {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join(".out.old")).unwrap();
            let (new, target) = staged(folder.path());
            replace(way, new, &target).unwrap();
            assert!(target.path.join("new").exists() && !target.path.join("old").exists());
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn what_changed_behind_the_last_look_goes_back() {
        for way in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let (new, target) = staged(folder.path());
            fs::write(target.path.join("precious"), "").unwrap();
            let error = replace(way, new, &target).unwrap_err();
            assert!(error.to_string().contains("precious was added to it while"), "{error}");
            assert!(target.path.join("precious").exists() && target.path.join("old").exists());
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn where_the_new_output_is_gone_the_older_one_stays() {
        for way in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let (new, target) = staged(folder.path());
            fs::remove_dir_all(&new.path).unwrap();
            assert!(replace(way, new, &target).is_err());
            assert!(target.path.join("old").exists());
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_came_into_an_output_that_goes_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (new, target) = staged(folder.path());
        fs::write(new.path.join("precious"), "").unwrap();
        let path = new.path.clone();
        drop((new, target));
        assert!(path.join("precious").exists() && !path.join("new").exists());
    }
}
