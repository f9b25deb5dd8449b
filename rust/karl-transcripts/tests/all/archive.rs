//! Archives of files that grow, are truncated, rotated, moved and packed, and of collections that are killed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use karl_log::Watch;
use karl_transcripts::archive::{AgentFile, CATALOGUE, Catalogue, Collected, FileForm, collect};
use tempfile::TempDir;

/// Agent's folder and an archive of it.
struct Made {
    folder: TempDir,
}

impl Made {
    fn new() -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(made.at("agent")).unwrap();
        made
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn archive(&self) -> PathBuf {
        self.at("archive")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at("agent").join(name), text).unwrap();
    }

    fn append(&self, name: &str, text: &str) {
        let mut file = File::options().append(true).open(self.at("agent").join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn files(&self) -> Vec<AgentFile> {
        let listed = fs::read_dir(self.at("agent")).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<PathBuf> = listed.collect();
        paths.sort();
        let file = |path: PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let (stem, suffix) = name.split_once('.').unwrap();
            let form = if suffix == "json" { FileForm::Document } else { FileForm::Lines };
            let name = format!("a/{stem}.jsonl");
            AgentFile { agent: "a".to_owned(), path, name, form }
        };
        paths.into_iter().map(file).collect()
    }

    fn collect(&self) -> Collected {
        let collected = collect(&self.files(), &self.archive(), &Watch::new()).unwrap();
        assert!(collected.failed.is_empty(), "{:?}", collected.failed);
        assert_eq!(collected.files, collected.grown + collected.unchanged);
        self.check();
        collected
    }

    /// Compare the catalogue with the archive's files: their frames are whole, one behind the other.
    fn check(&self) {
        let catalogue = Catalogue::open(&self.archive()).unwrap();
        for entry in catalogue.files() {
            let size = fs::metadata(self.archive().join(&entry.url)).unwrap().len();
            assert_eq!(catalogue.committed(&entry.url), Some(size));
        }
    }

    fn stored(&self, name: &str) -> String {
        unpacked(&self.archive().join("a").join(name))
    }
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    zstd::Decoder::new(File::open(path).unwrap()).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn line(number: usize) -> String {
    format!(
        "{{\"type\":\"user\",\"sessionId\":\"s\",\"uuid\":\"{number}\",\"text\":\"{}\"}}\n",
        "x".repeat(number % 90)
    )
}

fn lines(numbers: std::ops::Range<usize>) -> String {
    numbers.map(line).collect()
}

#[test]
fn a_file_that_grows_is_copied_byte_for_byte_in_frames() {
    let made = Made::new();
    made.write("s.jsonl", "");
    assert_eq!(made.collect().grown, 0);
    let mut text = String::new();
    for part in ["{\"a\": 1}\n{\"b\"", ": 2}\n", "{\"c\": 3}", "\n\n{\"d\": 4}\n", "not JSON\n"] {
        text += part;
        made.append("s.jsonl", part);
        made.collect();
        let stored = made.stored("s.jsonl.zst");
        assert!(text.starts_with(&stored), "{stored:?}");
        assert!(!text[stored.len()..].contains('\n'));
    }
    assert_eq!(made.stored("s.jsonl.zst"), text);
    let nothing = made.collect();
    assert_eq!((nothing.grown, nothing.lines, nothing.packed_bytes), (0, 0, 0));
}

#[test]
fn a_file_that_was_cut_or_rewritten_adds_its_new_lines_only() {
    let made = Made::new();
    made.write("s.jsonl", &lines(0..100));
    made.collect();
    for (text, wanted) in [
        (lines(0..50), 100),
        (lines(0..60) + &line(100), 101),
        (line(0) + &lines(99..103), 103),
        (lines(0..103) + "{\"open\": true}", 104),
        (line(0) + "{\"after\": true}", 105),
    ] {
        made.write("s.jsonl", &text);
        let collected = made.collect();
        let stored = made.stored("s.jsonl.zst");
        let mut all: Vec<&str> = stored.lines().collect();
        assert_eq!(all.len(), wanted, "{collected:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), wanted);
        assert!(text.lines().all(|line| all.contains(&line)));
    }
}

#[test]
fn a_file_that_takes_the_name_of_another_is_one_of_its_own() {
    let made = Made::new();
    made.write("s.jsonl", &lines(0..10));
    made.collect();
    made.write("s.jsonl", &lines(20..30));
    made.collect();
    made.append("s.jsonl", &line(30));
    made.collect();
    assert_eq!(made.stored("s.jsonl.zst"), lines(0..10));
    assert_eq!(made.stored("s.2.jsonl.zst"), lines(20..31));
}

#[test]
fn a_file_that_was_moved_and_packed_stands_there_once() {
    let made = Made::new();
    made.write("rollout.jsonl", &lines(0..10));
    made.collect();
    fs::remove_file(made.at("agent").join("rollout.jsonl")).unwrap();
    let packed = zstd::encode_all(lines(0..12).as_bytes(), 3).unwrap();
    fs::write(made.at("agent").join("rollout.jsonl.zst"), packed).unwrap();
    let collected = made.collect();
    assert_eq!((collected.lines, collected.duplicates), (2, 10));
    assert_eq!(made.stored("rollout.jsonl.zst"), lines(0..12));
    assert_eq!(made.collect().grown, 0);
}

#[test]
fn a_document_adds_the_messages_that_are_new() {
    let made = Made::new();
    for (messages, grown) in [("{\"id\":1}", 1), ("{\"id\":1}", 0), ("{\"id\":1},{\"id\":2}", 1)] {
        made.write("g.json", &format!("{{\"sessionId\": \"s\", \"messages\": [{messages}]}}"));
        assert_eq!(made.collect().grown, grown);
    }
    assert_eq!(made.stored("g.jsonl.zst"), "{\"sessionId\":\"s\"}\n{\"id\":1}\n{\"id\":2}\n");
}

#[test]
fn a_document_that_is_half_written_is_left_to_the_next_collection() {
    let made = Made::new();
    made.write("g.json", "{\"sessionId\": \"s\", \"messages\": [");
    let collected = collect(&made.files(), &made.archive(), &Watch::new()).unwrap();
    assert_eq!(collected.failed.len(), 1);
    made.write("g.json", "{\"sessionId\": \"s\", \"messages\": []}");
    assert_eq!(made.collect().grown, 1);
}

/// Cut every file of an archive after a collection at every length that a kill may leave: frames of which the
/// catalogue has no entry, torn frames, torn entries. The source is gone then.
#[test]
fn a_collection_that_was_killed_anywhere_loses_nothing_and_repeats_nothing() {
    let made = Made::new();
    made.write("s.jsonl", &lines(0..10));
    made.collect();
    let member = made.archive().join("a/s.jsonl.zst");
    let catalogue = made.archive().join(CATALOGUE);
    let before = [fs::read(&member).unwrap(), fs::read(&catalogue).unwrap()];
    made.append("s.jsonl", &lines(10..20));
    made.collect();
    let after = [fs::read(&member).unwrap(), fs::read(&catalogue).unwrap()];
    let cuts = |at: usize| before[at].len()..=after[at].len();
    let torn_frames = cuts(0).map(|end| (end, before[1].len()));
    let torn_entries = cuts(1).map(|end| (after[0].len(), end));
    for (member_end, catalogue_end) in torn_frames.chain(torn_entries) {
        fs::write(&member, &after[0][..member_end]).unwrap();
        fs::write(&catalogue, &after[1][..catalogue_end]).unwrap();
        made.collect();
        let stored = made.stored("s.jsonl.zst");
        let mut all: Vec<&str> = stored.lines().collect();
        all.sort_unstable();
        let text = lines(0..20);
        let mut wanted: Vec<&str> = text.lines().collect();
        wanted.sort_unstable();
        assert_eq!(all, wanted, "cut at {member_end} and {catalogue_end}");
        assert_eq!(made.collect().grown, 0);
    }
}

#[test]
fn lines_that_only_a_killed_collection_read_are_kept() {
    let made = Made::new();
    made.write("s.jsonl", &lines(0..40));
    made.collect();
    let catalogue = made.archive().join(CATALOGUE);
    let before = fs::read(&catalogue).unwrap();
    made.append("s.jsonl", &lines(40..80));
    made.collect();
    fs::write(&catalogue, before).unwrap();
    made.write("s.jsonl", &(line(0) + &line(90)));
    made.collect();
    assert_eq!(made.stored("s.jsonl.zst").lines().count(), 81);
}

#[test]
fn an_archive_that_was_damaged_is_left_as_it_is() {
    let made = Made::new();
    made.write("s.jsonl", &lines(0..40));
    made.collect();
    let catalogue = made.archive().join(CATALOGUE);
    let good = fs::read(&catalogue).unwrap();
    fs::write(&catalogue, [b"{]\n", &good[..]].concat()).unwrap();
    let error = collect(&made.files(), &made.archive(), &Watch::new()).unwrap_err().to_string();
    assert!(error.contains("line 1 is damaged"), "{error}");
    fs::remove_file(&catalogue).unwrap();
    let error = collect(&made.files(), &made.archive(), &Watch::new()).unwrap_err().to_string();
    assert!(error.contains("no catalogue"), "{error}");
    fs::write(&catalogue, &good).unwrap();
    fs::write(made.archive().join("a/s.jsonl.zst"), b"").unwrap();
    made.append("s.jsonl", &line(50));
    let collected = collect(&made.files(), &made.archive(), &Watch::new()).unwrap();
    assert!(collected.failed[0].1.contains("wanted the"), "{:?}", collected.failed);
}

#[test]
fn the_catalogue_keeps_what_a_session_is_about() {
    let made = Made::new();
    made.write(
        "s.jsonl",
        "{\"type\":\"user\",\"sessionId\":\"s\",\"agentId\":\"b\",\"cwd\":\"/nowhere\"}\n\
         {\"type\":\"pr-link\",\"prUrl\":\"https://h/pull/7\"}\n",
    );
    made.collect();
    made.append("s.jsonl", "{\"type\":\"user\"}\n");
    made.collect();
    let catalogue = Catalogue::open(&made.archive()).unwrap();
    let entry = catalogue.files().next().unwrap();
    assert_eq!((entry.id.as_deref(), entry.parent.as_deref()), (Some("s/b"), Some("s")));
    assert_eq!(entry.pull_request.as_deref(), Some("https://h/pull/7"));
    assert_eq!(entry.directory.as_deref(), Some("/nowhere"));
    assert_eq!((entry.lines, entry.repository.commit.as_deref()), (1, None));
}
