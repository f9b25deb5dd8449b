//! Identity of a file, or of a directory with its files, at one moment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device and inode; of a file, also its size and its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    is_file: bool,
    size: u64,
    modified: (i64, i64),
}

impl FileIdentity {
    fn of(facts: &Metadata) -> Self {
        let (device, inode, is_file) = (facts.dev(), facts.ino(), facts.is_file());
        if facts.is_dir() {
            return Self { device, inode, is_file, size: 0, modified: (0, 0) };
        }
        let modified = (facts.mtime(), facts.mtime_nsec());
        Self { device, inode, is_file, size: facts.len(), modified }
    }
}

/// Identity of a path; a symbolic link is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    own: FileIdentity,
    /// Files of a directory by name; `None` if it is not a directory.
    entries: Option<BTreeMap<OsString, FileIdentity>>,
}

impl Identity {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let facts = fs::symlink_metadata(path)?;
        let entries = if facts.is_dir() { Some(entries(path)?) } else { None };
        Ok(Self { own: FileIdentity::of(&facts), entries })
    }

    /// Return whether it is an empty directory.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.as_ref().is_some_and(BTreeMap::is_empty)
    }

    pub(super) fn is_file(&self) -> bool {
        self.own.is_file
    }

    /// Return the names in a directory, and whether each is a file.
    pub(super) fn entries(&self) -> Option<impl Iterator<Item = (&OsString, bool)>> {
        Some(self.entries.as_ref()?.iter().map(|(name, facts)| (name, facts.is_file)))
    }

    /// Return whether the same file or directory is at a path, with any contents.
    pub(super) fn stands_at(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|facts| {
            let now = FileIdentity::of(&facts);
            (now.device, now.inode, now.is_file) == (self.own.device, self.own.inode, self.own.is_file)
        })
    }

    /// Describe the change since then to the same path, which is `now`.
    pub(super) fn change(&self, now: &Self) -> Option<String> {
        if self == now {
            return None;
        }
        let (Some(before), Some(after)) = (&self.entries, &now.entries) else {
            return Some(if self.own.inode == now.own.inode { "it was changed" } else { OTHER }.to_owned());
        };
        if self.own != now.own {
            return Some(OTHER.to_owned());
        }
        let new = after.keys().find(|name| !before.contains_key(*name));
        let gone = before.keys().find(|name| !after.contains_key(*name));
        let changed = before.keys().find(|name| before.get(*name) != after.get(*name));
        let kinds = [(new, "was added to it"), (gone, "was removed from it"), (changed, "in it was changed")];
        kinds.into_iter().find_map(|(name, change)| Some(format!("{} {change}", name?.to_string_lossy())))
    }

    /// Remove these files, and nothing that was added or changed since.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let Some(entries) = &self.entries else { return remove_file(path, self.own) };
        for (name, &facts) in entries {
            remove_file(&path.join(name), facts)?;
        }
        fs::remove_dir(path)
    }
}

/// Message for a target that another file or directory has replaced.
const OTHER: &str = "something else took its place";

fn entries(directory: &Path) -> io::Result<BTreeMap<OsString, FileIdentity>> {
    let one = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name(), FileIdentity::of(&fs::symlink_metadata(entry.path())?)))
    };
    fs::read_dir(directory)?.map(one).collect()
}

fn remove_file(path: &Path, known: FileIdentity) -> io::Result<()> {
    if FileIdentity::of(&fs::symlink_metadata(path)?) == known { fs::remove_file(path) } else { Ok(()) }
}
