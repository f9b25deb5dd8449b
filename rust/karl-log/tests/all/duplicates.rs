//! Equal trajectories, counted in a sample of groups.

use karl_log::duplicates::{DuplicateEstimate, estimate_duplicates};
use karl_log::read::read;
use karl_log::{Log, Watch};
use tempfile::TempDir;

use crate::logs::{files, folder, open, settings};

/// Return a log of one file, and its folder: records are read again.
fn log_of(text: &str) -> (TempDir, Log) {
    let folder = folder();
    let log = read(open(&files(&folder, &[text])), &settings(), &Watch::new()).unwrap();
    (folder, log)
}

/// Return the records of some groups of four: in every third one, two answers are equal.
fn records(groups: usize) -> Vec<String> {
    let answer = |group: usize, row: usize| if group.is_multiple_of(3) && row == 3 { 0 } else { row };
    let record = |group: usize, row: usize| {
        format!(
            "{{\"id\":\"{group}-{row}\",\"group\":\"g{group}\",\"text\":\"answer {}\"}}\n",
            answer(group, row)
        )
    };
    (0..groups).flat_map(|group| (0..4).map(move |row| record(group, row))).collect()
}

fn loose(count: usize) -> Vec<String> {
    (0..count).map(|row| format!("{{\"id\":\"l{row}\",\"text\":\"same\"}}\n")).collect()
}

fn estimate(log: &Log, seed: u64, bytes: u64) -> DuplicateEstimate {
    estimate_duplicates(log, seed, bytes, 2, &Watch::new()).unwrap()
}

#[test]
fn a_small_log_is_compared_whole() {
    let (_folder, log) = log_of(&[records(30), loose(5)].concat().concat());
    let all = estimate(&log, 1, u64::MAX);
    assert_eq!((all.groups, all.groups_compared, all.rows_compared, all.rows_left_out), (30, 30, 125, 0));
    assert_eq!((all.copies, all.copies_compared, all.error_95), (14.0, 14, 0.0));
}

#[test]
fn the_seed_selects_as_many_groups_as_have_the_bytes() {
    let text = records(30).concat();
    let (_folder, log) = log_of(&text);
    let third = |seed| estimate(&log, seed, text.len() as u64 / 3);
    let sample = third(1);
    assert!((9..=11).contains(&sample.groups_compared), "{sample:?}");
    assert_eq!(sample.rows_compared, 4 * sample.groups_compared);
    assert!(sample.error_95 > 0.0 && third(1) == sample);
    assert!((2..9).any(|seed| third(seed).copies_compared != sample.copies_compared));
    assert_eq!(estimate(&log, 1, 1).groups_compared, 1, "at least one group");
}

#[test]
fn rows_without_a_group_are_compared_up_to_the_bytes_and_else_left_out() {
    let text = loose(50).concat();
    let (_folder, log) = log_of(&[records(3).concat(), text.clone()].concat());
    let most = estimate(&log, 1, text.len() as u64);
    assert_eq!((most.rows_left_out, most.copies), (0, 50.0));
    let few = estimate(&log, 1, text.len() as u64 / 2);
    assert_eq!((few.rows_left_out, few.rows_compared, few.copies), (50, 12, 1.0));
    let (_folder, log) = log_of(&text);
    let none = estimate(&log, 1, 10);
    assert_eq!((none.rows_left_out, none.rows_compared, none.groups), (50, 0, 0));
}
