//! Long records that are written as they came are not held: they are read again, and have to be what they were.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use karl_log::conversation::Flaw;
use karl_log::export::directory::{DirectoryFile, FileContent, SPLITS, target, write};
use karl_log::export::{Draft, ExportSettings, Prepared, Shape};
use karl_log::read::read;
use karl_log::{Error, Log, Watch};

use crate::logs::{self, by_line, draft_of, exists, files, folder, open};

const RAW: ExportSettings = ExportSettings {
    shape: Shape::Raw,
    allow_secrets: false,
    pseudonyms: None,
    prepared: Prepared::Judged,
    max_per_group: None,
    dealt: false,
    seed: 0,
    threads: 2,
};

const UNREAD: ExportSettings = ExportSettings { allow_secrets: true, prepared: Prepared::Unread, ..RAW };

/// Records of rising length, the last of them long, in two files.
fn texts() -> [String; 2] {
    let row = |at: usize| format!("{{\"id\": {at}, \"text\": \"{}\"}}\n", "né ".repeat(at * at));
    [(0..60).map(row).collect(), (60..80).map(row).collect()]
}

fn given(folder: &tempfile::TempDir) -> Log {
    read(open(&files(folder, &texts())), &logs::settings(), &Watch::new()).unwrap()
}

fn put(path: &Path, log: &Log, draft: &Draft, threads: usize) -> karl_log::Result<()> {
    let lines: Vec<usize> = (0..draft.rows.len()).rev().collect();
    let part =
        DirectoryFile { name: SPLITS[0], content: FileContent::Lines(&draft.written(Some(log), &lines)) };
    write(&target(path, false)?, &[part], threads, &Watch::new())
}

#[test]
fn a_row_is_the_same_whether_it_is_held_or_read_again() {
    let folder = folder();
    let log = given(&folder);
    let rows = by_line(&log);
    let held = draft_of(&log, &rows, rows.len(), ExportSettings { prepared: Prepared::Held, ..RAW });
    let again = draft_of(&log, &rows, rows.len(), RAW);
    assert!(held.lines.iter().all(Option::is_some) && held.rows == again.rows);
    for (held, again) in held.lines.iter().flatten().zip(&again.lines) {
        assert_eq!(again.is_none(), held.len() >= 4096, "{} bytes", held.len());
    }
    let all: Vec<usize> = (0..rows.len()).collect();
    let read = again.texts(Some(&log), &all, 2, &Watch::new()).unwrap();
    assert!(read.iter().eq(held.lines.iter().flatten()));
    let unread = draft_of(&log, &rows, rows.len(), UNREAD);
    assert_eq!((&unread.rows, &unread.lines), (&again.rows, &again.lines));
    for (number, (draft, threads)) in
        [(&held, 1), (&again, 1), (&again, 3), (&unread, 1), (&unread, 3)].into_iter().enumerate()
    {
        let target = folder.path().join(format!("out{number}"));
        put(&target, &log, draft, threads).unwrap();
        let wanted: String = read.iter().rev().flat_map(|text| [text.as_ref(), "\n"]).collect();
        assert!(fs::read_to_string(target.join(SPLITS[0])).unwrap() == wanted);
    }
}

#[test]
fn a_record_that_has_changed_meanwhile_is_not_written() {
    let folder = folder();
    let log = given(&folder);
    let draft = draft_of(&log, &by_line(&log), log.len(), RAW);
    let last = log.places().max_by_key(|place| (place.input, place.offset)).unwrap();
    let path = &log.inputs[last.input].source.path;
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(b"m", last.offset + 100).unwrap();
    let target = folder.path().join("out");
    for damage in ["changed", "short", "gone"] {
        assert!(matches!(put(&target, &log, &draft, 2), Err(Error::Changed { .. })), "{damage}");
        let there = fs::read_dir(folder.path()).unwrap().count();
        assert!(!exists(&target) && there == if damage == "gone" { 1 } else { 2 }, "{damage}: {there}");
        match damage {
            "changed" => OpenOptions::new().write(true).open(path).unwrap().set_len(last.offset + 1).unwrap(),
            "short" => fs::remove_file(path).unwrap(),
            _ => {}
        }
    }
}

/// A log of two files, with something put into the first record of the second, which is long.
fn odd(folder: &tempfile::TempDir, put_in: &str) -> Log {
    let [first, last] = texts();
    let texts = [first, last.replacen("né ", put_in, 1)];
    read(open(&files(folder, &texts)), &logs::settings(), &Watch::new()).unwrap()
}

#[test]
fn a_record_that_was_taken_unread_and_is_no_row_stops_all_and_is_known_to_a_judged_draft() {
    for (put_in, dropped) in [("\\q", 1), ("\u{1}", 1), ("\\ud800", 1), ("\",\r\"b\": \"", 0)] {
        let folder = folder();
        let (log, target) = (odd(&folder, put_in), folder.path().join("out"));
        let rows = by_line(&log);
        let unread = draft_of(&log, &rows, rows.len(), UNREAD);
        assert_eq!(
            (unread.rows.len(), unread.shape),
            (rows.len(), Some(Shape::Raw)),
            "nothing is known of them"
        );
        let (said, at) = (put(&target, &log, &unread, 2), log.inputs[1].source.path.clone());
        assert!(matches!(said, Err(Error::Unwritable { offset: 0, path }) if path == at), "{put_in:?}");
        assert!(!exists(&target) && fs::read_dir(folder.path()).unwrap().count() == 2);
        let judged =
            draft_of(&log, &rows, rows.len(), ExportSettings { prepared: Prepared::Judged, ..UNREAD });
        assert_eq!(judged.rows.len(), rows.len() - dropped, "{put_in:?}");
        put(&target, &log, &judged, 2).unwrap();
    }
}

#[test]
fn a_record_that_was_taken_unread_and_is_a_row_is_written() {
    let folder = folder();
    let log = odd(&folder, "\\u00e9\\n\\ud83d\\ude00");
    let rows = by_line(&log);
    put(&folder.path().join("out"), &log, &draft_of(&log, &rows, rows.len(), UNREAD), 2).unwrap();
}

#[test]
fn a_draft_of_unread_records_alone_has_their_shape() {
    let folder = folder();
    let log = given(&folder);
    let is_long = |row: &i64| log.place(u32::try_from(*row).unwrap()).unwrap().length >= 4096;
    let stand: Vec<i64> = by_line(&log).into_iter().filter(is_long).collect();
    let draft = draft_of(&log, &stand, stand.len(), UNREAD);
    assert!(draft.lines.iter().all(Option::is_none) && draft.shape == Some(Shape::Raw));
}

#[test]
fn records_are_read_before_where_there_is_a_judge_or_more_to_a_row_than_json() {
    let folder = folder();
    let row = |at: usize| format!("{{\"id\": {at}, \"a\": \"{}\\q\"}}\n", "x".repeat(5000));
    let texts: [String; 1] = [(0..3).map(row).collect()];
    let log = read(open(&files(&folder, &texts)), &logs::settings(), &Watch::new()).unwrap();
    let rows = by_line(&log);
    for settings in
        [ExportSettings { allow_secrets: false, ..UNREAD }, ExportSettings { shape: Shape::Text, ..UNREAD }]
    {
        assert_eq!(draft_of(&log, &rows, 3, settings).rows.len(), 0);
    }
    assert_eq!(draft_of(&log, &rows, 3, UNREAD).rows.len(), 3);
    let log = given(&folder);
    let rows = by_line(&log);
    let judge = |line: &str| Ok((line.len() > 5000).then_some(Flaw::TooManyTokens));
    let draft = logs::judged(&log, &rows, rows.len(), UNREAD, Some(&judge));
    assert!(
        draft.lines.iter().flatten().all(|line| line.len() <= 5000)
            && draft.lines.iter().all(Option::is_some)
    );
    assert!(draft.dropped[&Flaw::TooManyTokens] > 0);
}

#[test]
fn a_raw_row_stays_as_it_came_however_often_it_is_drawn() {
    let folder = folder();
    let row = |at: usize| {
        format!("{{\"id\":{at},\"text\":\"{}\",\"karl_fast\":{{\"copies\":1}}}}\n", "x".repeat(at * at))
    };
    let texts: [String; 1] = [(0..80).map(row).collect()];
    let log = read(open(&files(&folder, &texts)), &logs::settings(), &Watch::new()).unwrap();
    let rows = by_line(&log);
    let mut draft = draft_of(&log, &rows, rows.len(), RAW);
    draft.copy(|_| 3);
    let all: Vec<usize> = (0..rows.len()).collect();
    assert!(draft.texts(Some(&log), &all, 1, &Watch::new()).unwrap().iter().eq(texts[0].lines()));
    assert!(draft.lines.iter().any(Option::is_none) && draft.lines.iter().any(Option::is_some));
}
