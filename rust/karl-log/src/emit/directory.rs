//! A directory that appears whole or not at all.
//!
//! Everything is written into a hidden directory beside the target, synced, and renamed. An existing output is
//! swapped with the new one in a single step where the system can (Linux, macOS), so that at every moment the
//! target is either the old or the new whole.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;
use tempfile::TempDir;

use super::file;
pub use super::file::Line;
use crate::error::{Error, Result, without_path};
use crate::parallel::map;
use crate::watch::Watch;

/// The files of the splits.
pub const SPLITS: [&str; 3] = ["train.jsonl", "valid.jsonl", "test.jsonl"];

/// The file that marks a directory as an output of ours: only such a one is ever replaced.
pub const MANIFEST: &str = "manifest.json";

/// All that an output of ours holds.
const FILES: [&str; 4] = [SPLITS[0], SPLITS[1], SPLITS[2], MANIFEST];

/// The largest file that is looked into for a manifest of ours, in bytes.
const MANIFEST_MAX: u64 = 1 << 28;

/// How much of the target's name the hidden directory's has, in characters: a name may be as long as the file system
/// allows.
const NAME_KEPT: usize = 50;

/// One file of the directory.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its lines.
    pub lines: &'a [Line<'a>],
}

/// Refuses a target that may not be written: before any work is done, and again when it is written.
///
/// # Errors
/// [`Error::Exists`] if an output of ours is there and `force` is off, [`Error::Foreign`] if something else is;
/// [`Error::Target`] for a path that ends in no name.
pub fn check_target(target: &Path, force: bool) -> Result<()> {
    if target.file_name().is_none() {
        return Err(Error::Target { path: target.to_path_buf() });
    }
    let foreign = |problem| Err(Error::Foreign { path: target.to_path_buf(), problem });
    let facts = match fs::symlink_metadata(target) {
        Err(error) if is_absent(&error) => return Ok(()),
        facts => facts.map_err(|error| Error::io("look at", target, error))?,
    };
    if !facts.is_dir() {
        return foreign("is no directory");
    }
    let list = |error| Error::io("list", target, error);
    let entries = fs::read_dir(target).map_err(list)?.collect::<io::Result<Vec<_>>>().map_err(list)?;
    let ours =
        entries.iter().all(|entry| entry.file_name().to_str().is_some_and(|name| FILES.contains(&name)));
    match (entries.is_empty(), ours && is_manifest(&target.join(MANIFEST))?, force) {
        (true, ..) | (_, true, true) => Ok(()),
        (_, true, false) => Err(Error::Exists { path: target.to_path_buf() }),
        (_, false, _) => foreign("holds something else than a data set of karl-fast"),
    }
}

/// Whether a file is a manifest of ours. Somebody else's may be a pipe that never ends, or larger than memory.
fn is_manifest(path: &Path) -> Result<bool> {
    let facts = match fs::metadata(path) {
        Err(error) if is_absent(&error) => return Ok(false),
        facts => facts.map_err(|error| Error::io("look at", path, error))?,
    };
    if !facts.is_file() || facts.len() > MANIFEST_MAX {
        return Ok(false);
    }
    let text = fs::read(path).map_err(|error| Error::io("read", path, error))?;
    let manifest = serde_json::from_slice::<Value>(&text);
    Ok(manifest.is_ok_and(|manifest| manifest.get("schema").is_some() && manifest.get("karl_fast").is_some()))
}

/// Whether an error says that nothing is there, and not that nobody can tell.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Writes all parts, or nothing; each with so many threads.
///
/// # Errors
/// As [`check_target`]; [`Error::Io`] if anything cannot be written; as [`fetch`](crate::fetch::fetch);
/// [`Error::Unwritable`] for a record that was taken unread and is no row. The target is then what it was, unless all that failed was to remove the old output or to sync the directory around it: then it is
/// the new whole.
pub fn write(target: &Path, parts: &[Part<'_>], threads: usize, force: bool, watch: &Watch) -> Result<()> {
    check_target(target, force)?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parents =
        Parents::create(parent).map_err(|error| Error::io("create the folder of", target, error))?;
    let staging = stage(parent, target)?;
    watch.expect(parts.iter().map(|part| file::bytes(part.lines)).sum());
    // Each waits for the disk, and the disk for none of them.
    let failed = AtomicBool::new(false);
    let all = map(parts.iter().collect(), parts.len(), |part: &Part<'_>| {
        let (path, target) = (staging.path().join(part.name), target.join(part.name));
        file::write(&path, &target, part.lines, threads, &failed, watch)
    });
    all.into_iter().collect::<Result<()>>()?;
    sync(staging.path()).map_err(|error| Error::io("write", target, error))?;
    watch.advance(0)?;
    replace(staging, target)?;
    parents.keep();
    sync(parent).map_err(|error| Error::io("sync the folder of", target, error))
}

/// A hidden directory beside the target: with the mode of the one that is there, else with the one that the umask gives.
fn stage(parent: &Path, target: &Path) -> Result<TempDir> {
    let name = target.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name: String = name.chars().take(NAME_KEPT).collect();
    let staging = tempfile::Builder::new()
        .prefix(&format!(".{name}.karl-fast-"))
        .permissions(fs::Permissions::from_mode(mode(target).unwrap_or(0o777)))
        .tempdir_in(parent);
    staging.map_err(|error| Error::io("create a directory beside", target, without_path(error)))
}

/// The mode of a directory that its owner can write to.
fn mode(target: &Path) -> Option<u32> {
    let facts = target.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
    Some(facts.permissions().mode() & 0o7777).filter(|mode| mode & 0o700 == 0o700)
}

/// Directories made on the way to the target, innermost first; gone again unless they are kept.
struct Parents(Vec<PathBuf>);

impl Parents {
    fn create(parent: &Path) -> io::Result<Self> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = Self(parent.ancestors().take_while(missing).map(Path::to_path_buf).collect());
        fs::create_dir_all(parent)?;
        Ok(made)
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        // One that holds something by now is somebody else's too, and stays; one may never have been made.
        self.0.iter().for_each(|made| drop(fs::remove_dir(made)));
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory).and_then(|file| file.sync_all())
}

/// Puts the staged directory in the target's place, with the mode of the one that is there; what was there goes.
fn replace(staging: TempDir, target: &Path) -> Result<()> {
    let io = |error: io::Error| Error::io("rename to", target, error);
    if target.symlink_metadata().is_err() {
        fs::rename(staging.path(), target).map_err(io)?;
        let _moved: PathBuf = staging.keep();
        return Ok(());
    }
    // The umask may have taken some of it away.
    if let Some(kept) = mode(target).filter(|&kept| mode(staging.path()) != Some(kept)) {
        let kept = fs::set_permissions(staging.path(), fs::Permissions::from_mode(kept));
        kept.map_err(|error| Error::io("keep the mode of", target, error))?;
    }
    match renameat_with(CWD, staging.path(), CWD, target, RenameFlags::EXCHANGE) {
        // The staging name now holds the old output, which goes with it.
        Ok(()) => remove(staging),
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => {
            swap(staging, target)
        }
        Err(error) => Err(io(error.into())),
    }
}

/// Removes an output that another has taken the place of, also one that was not to be written to.
fn remove(old: TempDir) -> Result<()> {
    let path = old.path().to_path_buf();
    let _may_not_be_ours = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
    let doing = "remove the output before, in whose place the new one is:";
    old.close().map_err(|error| Error::io(doing, &path, without_path(error)))
}

/// Two renames, for file systems that cannot exchange: for a moment there is no target, never a half one.
fn swap(staging: TempDir, target: &Path) -> Result<()> {
    let io = |error: io::Error| Error::io("rename to", target, error);
    let mut old = staging.path().as_os_str().to_owned();
    old.push(".old");
    let old = PathBuf::from(old);
    fs::rename(target, &old).map_err(io)?;
    if let Err(error) = fs::rename(staging.path(), target) {
        fs::rename(&old, target).map_err(io)?;
        return Err(io(error));
    }
    let _moved: PathBuf = staging.keep();
    fs::remove_dir_all(&old).map_err(|error| Error::io("remove", &old, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A staged directory and an older target in one folder.
    fn staged(folder: &Path) -> (TempDir, PathBuf) {
        let (staging, target) =
            (TempDir::with_prefix_in(".out.karl-fast-", folder).unwrap(), folder.join("out"));
        fs::write(staging.path().join("new"), "").unwrap();
        fs::create_dir(&target).unwrap();
        fs::write(target.join("old"), "").unwrap();
        (staging, target)
    }

    #[test]
    fn an_error_of_the_system_keeps_its_number_and_loses_the_path_of_nobody() {
        let error = stage(Path::new("/proc"), Path::new("/proc/out")).unwrap_err();
        let Error::Io { source, .. } = error else { panic!("{error}") };
        assert!(source.raw_os_error().is_some() && !source.to_string().contains("path"), "{source}");
        let own = without_path(io::Error::other("no (os error"));
        assert_eq!((own.raw_os_error(), own.to_string().as_str()), (None, "no (os error"));
    }

    #[test]
    fn two_renames_put_the_new_output_in_place_and_touch_no_neighbour() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".out.old")).unwrap();
        let (staging, target) = staged(folder.path());
        swap(staging, &target).unwrap();
        assert!(target.join("new").exists() && !target.join("old").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_swap_whose_second_rename_fails_restores_the_older_output() {
        let folder = tempfile::tempdir().unwrap();
        let (staging, target) = staged(folder.path());
        fs::remove_dir_all(staging.path()).unwrap();
        assert!(swap(staging, &target).is_err());
        assert!(target.join("old").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
