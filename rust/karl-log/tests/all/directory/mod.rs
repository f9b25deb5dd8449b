//! An output appears whole or not at all, and nothing of anybody else's is replaced.

mod replaced;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use karl_log::export::directory;
use karl_log::export::directory::{DirectoryFile, FileContent, FileLine, MANIFEST};
use karl_log::{Error, Watch};

use crate::logs::{exists, folder};

const NEW: [DirectoryFile<'static>; 2] = [
    DirectoryFile {
        name: "train.jsonl",
        content: FileContent::Lines(&[FileLine::Text("{\"a\":1}"), FileLine::Text("{\"a\":2}")]),
    },
    DirectoryFile { name: MANIFEST, content: FileContent::Lines(&[FileLine::Text("{}")]) },
];

/// Every file under a folder with its text, links as links.
fn tree(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut out = Vec::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(path) = left.pop() {
        let facts = path.symlink_metadata().unwrap();
        if facts.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let text = if facts.is_file() {
            fs::read_to_string(&path).unwrap()
        } else {
            format!("{:?}", facts.file_type().is_symlink())
        };
        out.push((path, text));
    }
    out.sort();
    out
}

fn written(target: &Path) -> bool {
    fs::read_to_string(target.join("train.jsonl")).is_ok_and(|text| text == "{\"a\":1}\n{\"a\":2}\n")
        && fs::read_dir(target).unwrap().count() == 2
}

fn put(target: &Path, force: bool) -> karl_log::Result<()> {
    write(target, &NEW, force, &Watch::new())
}

fn write(target: &Path, parts: &[DirectoryFile<'_>], force: bool, watch: &Watch) -> karl_log::Result<()> {
    directory::write(&directory::target(target, force)?, parts, 2, watch)
}

/// A manifest that tells an output of ours.
const OLD: &str = r#"{"schema":1,"karl_fast":"0.0.1"}"#;

/// An older output of ours.
fn older(folder: &Path) -> PathBuf {
    let target = folder.join("out");
    write(
        &target,
        &[
            DirectoryFile { name: MANIFEST, content: FileContent::Lines(&[FileLine::Text(OLD)]) },
            DirectoryFile { name: "test.jsonl", content: FileContent::Lines(&[]) },
        ],
        false,
        &Watch::new(),
    )
    .unwrap();
    target
}

/// Writing must fail and leave everything as it is.
fn assert_untouched(folder: &Path, fail: impl FnOnce() -> karl_log::Result<()>) -> Error {
    let before = tree(folder);
    let error = fail().unwrap_err();
    assert_eq!(tree(folder), before, "{error}");
    error
}

#[test]
fn a_new_output_is_written_whole_and_alone() {
    let folder = folder();
    let target = folder.path().join("a/b/out.v1");
    put(&target, false).unwrap();
    assert!(written(&target));
    assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn an_empty_directory_is_filled() {
    let folder = folder();
    let target = folder.path().join("out");
    fs::create_dir(&target).unwrap();
    put(&target, false).unwrap();
    assert!(written(&target) && fs::read_dir(folder.path()).unwrap().count() == 1);
}

#[test]
fn an_older_output_is_replaced_by_force_only() {
    let folder = folder();
    let target = older(folder.path());
    assert!(matches!(assert_untouched(folder.path(), || put(&target, false)), Error::Exists { .. }));
    put(&target, true).unwrap();
    assert!(written(&target) && fs::read_dir(folder.path()).unwrap().count() == 1);
}

#[test]
fn a_part_that_cannot_be_written_leaves_nothing() {
    let folder = folder();
    let target = older(folder.path());
    let long = "n".repeat(300);
    for name in ["a/b", "", "\0", long.as_str(), "train.jsonl"] {
        let parts = [NEW[0], DirectoryFile { name, content: FileContent::Lines(&[FileLine::Text("x")]) }];
        for target in [&target, &folder.path().join("new")] {
            let error = assert_untouched(folder.path(), || write(target, &parts, true, &Watch::new()));
            assert!(matches!(error, Error::Io { .. }), "{name:?}");
        }
    }
}

#[test]
fn a_parent_that_is_a_file_is_an_error() {
    let folder = folder();
    fs::write(folder.path().join("file"), "f").unwrap();
    assert!(matches!(
        assert_untouched(folder.path(), || put(&folder.path().join("file/out"), true)),
        Error::Io { .. }
    ));
}

#[test]
fn a_parent_that_takes_no_files_is_an_error() {
    // Permissions do not stop root, who may run the tests; these file systems do.
    for folder in ["/proc", "/sys"].map(Path::new).into_iter().filter(|folder| exists(folder)) {
        assert!(matches!(put(&folder.join("out"), true), Err(Error::Io { .. })));
        assert!(!exists(&folder.join("out")));
    }
}

#[test]
fn stopping_leaves_nothing() {
    let folder = folder();
    let target = older(folder.path());
    let watch = Watch::new();
    watch.stop();
    for target in [&target, &folder.path().join("new")] {
        let error = assert_untouched(folder.path(), || write(target, &NEW, true, &watch));
        assert!(matches!(error, Error::Interrupted));
    }
}

#[test]
fn stopping_in_the_middle_leaves_nothing() {
    let folder = folder();
    let (target, watch) = (older(folder.path()), Watch::new());
    let line = "x".repeat(1 << 20);
    let lines = vec![FileLine::Text(&line); 200];
    let before = tree(folder.path());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while watch.bytes() < 5 << 20 {
                std::thread::yield_now();
            }
            watch.stop();
        });
        let parts = [NEW[1], DirectoryFile { name: "train.jsonl", content: FileContent::Lines(&lines) }];
        assert!(matches!(write(&target, &parts, true, &watch), Err(Error::Interrupted)));
    });
    assert!(watch.bytes() >= 5 << 20 && tree(folder.path()) == before);
}

#[test]
fn modes_are_those_that_the_umask_gives() {
    let folder = folder();
    fs::create_dir(folder.path().join("plain")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    put(&folder.path().join("out"), false).unwrap();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
    assert_eq!((mode("out"), mode("out/train.jsonl")), (mode("plain"), mode("file")));
}

#[test]
fn a_folder_that_was_there_keeps_its_mode() {
    let folder = folder();
    let (empty, older) = (folder.path().join("empty"), older(folder.path()));
    fs::create_dir(&empty).unwrap();
    for target in [empty, older] {
        fs::set_permissions(&target, fs::Permissions::from_mode(0o1770)).unwrap();
        put(&target, true).unwrap();
        assert!(written(&target));
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o7777, 0o1770);
    }
}
