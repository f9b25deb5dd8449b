//! The cap per group is part of the draw: a row that cannot be written takes no place of its group.

use karl_log::conversation::Flaw;
use karl_log::export::{ExportSettings, Prepared, Shape};
use karl_log::read::read;
use karl_log::{Log, Watch};

use crate::logs::{by_line, draft_of, files, folder, open, settings};

const CHAT: ExportSettings = ExportSettings {
    shape: Shape::Chat,
    allow_secrets: false,
    pseudonyms: None,
    prepared: Prepared::Held,
    max_per_group: None,
    dealt: false,
    seed: 0,
    threads: 2,
};

/// Ten rows a group, best first; the first five of each cannot be written.
fn half_broken() -> (tempfile::TempDir, Log) {
    let row = |at: usize| {
        let text = if at % 10 < 5 { "null" } else { "\"t\"" };
        format!("{{\"id\":{at},\"group\":\"g{}\",\"text\":{text}}}\n", at / 10)
    };
    let folder = folder();
    let text: String = (0..40).map(row).collect();
    let log = read(open(&files(&folder, &[&text])), &settings(), &Watch::new()).unwrap();
    (folder, log)
}

#[test]
fn a_row_that_fails_takes_no_place_of_its_group() {
    let (_folder, log) = half_broken();
    for (cap, count, rows, over) in [(2, 99, 8, 12), (6, 99, 20, 0), (3, 7, 7, 4), (1, 4, 4, 12)] {
        let settings = ExportSettings { max_per_group: Some(cap), ..CHAT };
        let draft = draft_of(&log, &by_line(&log), count, settings);
        assert_eq!((draft.rows.len(), draft.over_group_cap), (rows, over), "cap {cap}, {count} wanted");
        let written = |group: &str| {
            draft.rows.iter().filter(|&&row| log.group.name(row as usize) == Some(group)).count()
        };
        assert!(["g0", "g1", "g2", "g3"].into_iter().all(|group| written(group) <= cap));
    }
}

#[test]
fn a_draw_with_a_cap_is_the_sequential_draw() {
    let (_folder, log) = half_broken();
    let ranked = by_line(&log);
    let good = |at: usize| at % 10 >= 5;
    let first_two_of_each: Vec<i64> =
        (0..40).filter(|&at| good(at) && at % 10 < 7).map(|at| ranked[at]).collect();
    let draft = draft_of(&log, &ranked, 5, ExportSettings { max_per_group: Some(2), ..CHAT });
    assert_eq!(draft.rows.iter().map(|&row| i64::from(row)).collect::<Vec<_>>(), first_two_of_each[..5]);
    assert_eq!(draft.dropped[&Flaw::NoTrajectory], 15, "those that stand before the fifth row");
}
