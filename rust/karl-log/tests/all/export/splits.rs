//! Splits: groups stay whole, small splits go to train, the order depends on seed and id alone.

use karl_log::export::{Dealing, Draft, ExportSettings, Ordinals, Shape};
use karl_log::{Error, Log};

use super::{CHAT, kept};
use crate::logs::{by_line, draft_of};

fn grouped() -> (tempfile::TempDir, Log, Draft) {
    let row = |at: usize| format!("{{\"id\":{at},\"group\":\"g{}\",\"text\":\"t\"}}\n", at / 4);
    let (folder, log) = kept(&(0..400).map(row).collect::<String>());
    let draft = draft_of(&log, &by_line(&log), 400, CHAT);
    (folder, log, draft)
}

fn dealing(seed: u64, fractions: [f64; 3], fewest: usize) -> Dealing {
    Dealing { fractions, fewest, seed }
}

#[test]
fn a_group_falls_into_one_split_and_every_row_into_some() {
    let (_folder, log, draft) = grouped();
    let splits = draft.split(&log, Ordinals::Ranks, dealing(1, [0.5, 0.3, 0.2], 4)).unwrap();
    let names = |split: &Vec<usize>| {
        split
            .iter()
            .map(|&line| log.group.name(draft.rows[line] as usize).unwrap())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(splits.lines.each_ref().map(|split| names(split).len()), [50, 30, 20]);
    assert_eq!((splits.groups, splits.quotas, splits.merged), ([50, 30, 20], [200.0, 120.0, 80.0], [0; 3]));
    let mut all = splits.lines.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..400));
}

#[test]
fn rows_without_a_group_fall_into_the_split_of_their_prompt() {
    let row = |at: usize| format!("{{\"id\":{at},\"prompt\":\"q{}\",\"completion\":\"a{at}\"}}\n", at % 10);
    let (_folder, log) = kept(&(0..100).map(row).collect::<String>());
    for shape in [Shape::Chat, Shape::PromptCompletionText, Shape::Text, Shape::Raw] {
        let draft = draft_of(&log, &by_line(&log), 100, ExportSettings { shape, ..CHAT });
        let splits = draft.split(&log, Ordinals::Ranks, dealing(1, [0.7, 0.3, 0.0], 4)).unwrap();
        assert_eq!(
            (splits.groups, splits.lines.each_ref().map(Vec::len)),
            ([7, 3, 0], [70, 30, 0]),
            "{shape:?}"
        );
    }
}

#[test]
fn a_split_of_too_few_rows_goes_to_train() {
    let (_folder, log, draft) = grouped();
    let split = |fewest| draft.split(&log, Ordinals::Ranks, dealing(1, [0.9, 0.1, 0.0], fewest)).unwrap();
    let merged = split(41);
    assert_eq!((merged.lines.each_ref().map(Vec::len), merged.merged), ([400, 0, 0], [0, 40, 0]));
    assert_eq!((merged.groups, merged.quotas), ([100, 0, 0], [360.0, 40.0, 0.0]));
    assert_eq!((split(40).groups, split(40).merged), ([90, 10, 0], [0; 3]));
    let wrong = draft.split(&log, Ordinals::Ranks, dealing(1, [0.9, 0.2, 0.0], 4));
    assert!(matches!(wrong, Err(Error::Draw(_))));
}

#[test]
fn rows_are_written_in_an_order_of_seed_and_id_alone() {
    let (_folder, log, draft) = grouped();
    let mut backwards = by_line(&log);
    backwards.reverse();
    let other = draft_of(&log, &backwards, 400, CHAT);
    let written = |draft: &Draft, seed| {
        let splits = draft.split(&log, Ordinals::Ranks, dealing(seed, [1.0, 0.0, 0.0], 4)).unwrap();
        splits.lines[0].iter().map(|&line| draft.lines[line].clone()).collect::<Vec<_>>()
    };
    assert_eq!(written(&draft, 1), written(&other, 1));
    assert!(written(&draft, 1) != written(&draft, 2) && written(&draft, 1) != draft.lines);
}
