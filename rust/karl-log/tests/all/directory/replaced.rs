//! Outputs of others, and changes of a target during a run, are never replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use karl_log::atomic_output::OutputTarget;
use karl_log::export::directory;
use karl_log::export::directory::{DirectoryFile, FileContent, FileLine, MANIFEST};
use karl_log::{Error, Watch};

use super::{NEW, OLD, assert_untouched, older, put, written};
use crate::logs::folder;

#[test]
fn what_is_no_output_of_ours_is_never_replaced() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "f").unwrap();
    fs::create_dir(at("theirs")).unwrap();
    fs::write(at("theirs/precious"), "p").unwrap();
    symlink("theirs", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    fs::create_dir_all(at("odd/manifest.json")).unwrap();
    for name in ["file", "theirs", "link", "dangling", "odd"] {
        for force in [false, true] {
            assert!(matches!(directory::target(&at(name), force), Err(Error::Foreign { .. })), "{name}");
            assert!(
                matches!(assert_untouched(folder.path(), || put(&at(name), force)), Error::Foreign { .. }),
                "{name}"
            );
        }
    }
}

#[test]
fn a_folder_with_a_manifest_of_somebody_else_is_never_replaced() {
    let others: [&[(&str, &str)]; 5] = [
        &[("manifest.json", OLD), (".DS_Store", "")],
        &[("manifest.json", r#"{"name":"my web app"}"#)],
        &[("manifest.json", "no json")],
        &[("manifest.json", OLD), ("thesis.tex", "ten years of work")],
        &[("train.jsonl", "{}")],
    ];
    for files in others {
        let folder = folder();
        let target = folder.path().join("out");
        fs::create_dir(&target).unwrap();
        for (name, text) in files {
            fs::write(target.join(name), text).unwrap();
        }
        let error = assert_untouched(folder.path(), || put(&target, true));
        assert!(matches!(error, Error::Foreign { .. }), "{files:?}");
    }
}

#[test]
fn a_data_set_with_a_link_or_a_folder_in_it_is_never_replaced() {
    let folder = folder();
    let target = older(folder.path());
    fs::write(folder.path().join("theirs"), "precious").unwrap();
    fs::remove_file(target.join("test.jsonl")).unwrap();
    symlink("../theirs", target.join("test.jsonl")).unwrap();
    assert!(matches!(assert_untouched(folder.path(), || put(&target, true)), Error::Foreign { .. }));
    fs::remove_file(target.join("test.jsonl")).unwrap();
    fs::create_dir(target.join("test.jsonl")).unwrap();
    fs::write(target.join("test.jsonl/precious"), "p").unwrap();
    assert!(matches!(assert_untouched(folder.path(), || put(&target, true)), Error::Foreign { .. }));
    fs::remove_dir_all(target.join("test.jsonl")).unwrap();
    fs::rename(target.join(MANIFEST), folder.path().join("theirs")).unwrap();
    symlink("../theirs", target.join(MANIFEST)).unwrap();
    assert!(matches!(assert_untouched(folder.path(), || put(&target, true)), Error::Foreign { .. }));
}

/// What somebody else does to a target during a run.
type Change = fn(&Path);

/// Whatever is done to the target after the first look at it stays as it is.
fn assert_kept(prepare: Change, force: bool, changes: &[(&str, Change)]) {
    for (name, change) in changes {
        let folder = folder();
        let path = folder.path().join("out");
        prepare(&path);
        let target = directory::target(&path, force).unwrap();
        change(&path);
        let error = assert_untouched(folder.path(), || directory::write(&target, &NEW, 2, &Watch::new()));
        assert!(matches!(error, Error::Taken { .. }), "{name}: {error}");
    }
}

const MADE: [(&str, Change); 5] = [
    ("an empty directory", |path| fs::create_dir(path).unwrap()),
    ("a directory", |path| {
        fs::create_dir(path).unwrap();
        fs::write(path.join("precious"), "p").unwrap();
    }),
    ("a file", |path| fs::write(path, "p").unwrap()),
    ("a link", |path| symlink("nowhere", path).unwrap()),
    ("a data set", |path| put(path, false).unwrap()),
];

#[test]
fn what_is_made_where_nothing_was_is_kept() {
    assert_kept(|_| (), false, &MADE);
    assert_kept(|_| (), true, &MADE);
}

#[test]
fn what_is_put_into_an_empty_directory_is_kept() {
    let inside: Change = |path| fs::write(path.join("precious"), "p").unwrap();
    let instead: Change = |path| {
        fs::remove_dir(path).unwrap();
        fs::write(path, "p").unwrap();
    };
    let changes = [("a file inside", inside), ("a file instead", instead)];
    assert_kept(|path| fs::create_dir(path).unwrap(), false, &changes);
}

#[test]
fn an_older_output_that_changes_is_kept() {
    let changes: [(&str, Change); 5] = [
        ("a file more", |path| fs::write(path.join("precious"), "p").unwrap()),
        ("a file less", |path| fs::remove_file(path.join("test.jsonl")).unwrap()),
        ("a longer file", |path| fs::write(path.join("test.jsonl"), "{}").unwrap()),
        ("a link to it", |path| {
            fs::rename(path, path.with_file_name("moved")).unwrap();
            symlink("moved", path).unwrap();
        }),
        ("another output", |path| put(path, true).unwrap()),
    ];
    assert_kept(|path| drop(older(path.parent().unwrap())), true, &changes);
}

#[test]
fn an_output_that_was_there_and_is_gone_is_written_anew() {
    let folder = folder();
    let old: Change = |path| drop(older(path.parent().unwrap()));
    let empty: Change = |path| fs::create_dir(path).unwrap();
    for prepare in [old, empty] {
        let path = folder.path().join("out");
        prepare(&path);
        let target = directory::target(&path, true).unwrap();
        fs::remove_dir_all(&path).unwrap();
        directory::write(&target, &NEW, 2, &Watch::new()).unwrap();
        assert!(written(&path) && fs::read_dir(folder.path()).unwrap().count() == 1);
        fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn of_many_runs_to_one_place_one_is_done_and_the_others_say_so() {
    for round in 0..50 {
        let folder = folder();
        let path = folder.path().join("out");
        if round % 2 == 1 {
            older(folder.path());
        }
        let texts: Vec<String> = (0..8).map(|run| run.to_string()).collect();
        let targets: Vec<_> = texts.iter().map(|_| directory::target(&path, true).unwrap()).collect();
        let done: Vec<bool> = std::thread::scope(|scope| {
            let one = |(target, text): (&OutputTarget, &String)| {
                let line = [FileLine::Text(text)];
                let parts = [
                    DirectoryFile { name: "train.jsonl", content: FileContent::Lines(&line) },
                    DirectoryFile { name: MANIFEST, content: FileContent::Lines(&[FileLine::Text(OLD)]) },
                ];
                match directory::write(target, &parts, 1, &Watch::new()) {
                    Ok(()) => true,
                    Err(Error::Taken { .. }) => false,
                    Err(error) => panic!("{error}"),
                }
            };
            let runs: Vec<_> = targets.iter().zip(&texts).map(|run| scope.spawn(move || one(run))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        let winner = done.iter().position(|&done| done).unwrap();
        assert_eq!(done.iter().filter(|&&done| done).count(), 1);
        assert_eq!(fs::read_to_string(path.join("train.jsonl")).unwrap(), format!("{winner}\n"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
