//! Replacement of an older output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::folder::is_absent;
use super::hidden::Hidden;
use super::identity::Identity;
use super::rename::{exchange, rename_new};
use super::target::OutputTarget;
use crate::error::{Error, Result};

impl OutputTarget {
    /// Swap the new output with the old one; remove the old one if it is unchanged since the first look.
    pub(super) fn replace(&self, new: &Hidden, old: &Identity) -> Result<()> {
        match exchange(&new.path, &self.path) {
            Ok(true) => {}
            Ok(false) => return self.replace_by_two_renames(new, old),
            Err(error) if is_absent(&error) => return self.place(new),
            Err(error) => return Err(self.not_renamed(error)),
        }
        let Err(error) = self.is_old(old, &new.path) else { return remove(old, &new.path) };
        let back = exchange(&new.path, &self.path).is_ok_and(|swapped| swapped);
        Err(if back && new.print.stands_at(&new.path) { error } else { self.kept(&new.path) })
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
            Err(_) => Err(self.kept(&aside)),
        }
    }

    /// Reject a replaced output that differs from the first look.
    fn is_old(&self, old: &Identity, path: &Path) -> Result<()> {
        let now = Identity::of(path).map_err(|error| Error::io("look at", &self.shown, error))?;
        old.change(&now).map_or(Ok(()), |change| Err(self.taken(&change)))
    }

    /// Return the error for an old output that could not be moved back, with its path.
    fn kept(&self, path: &Path) -> Error {
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

#[cfg(test)]
mod tests {
    use super::super::kind::OutputKind;
    use super::super::target::Present;
    use super::*;
    use std::io;

    use crate::error::without_path;

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
