//! Drafts: failed rows and their replacements, batches, the judge.

use karl_log::conversation::Flaw;
use karl_log::{Error, Watch};
use serde_json::Value;

use super::{CHAT, kept};
use crate::logs::{self, by_line, draft_of, judged};

#[test]
fn a_chosen_row_that_fails_is_counted_and_the_next_takes_its_place() {
    let texts = [
        "{\"id\":0,\"text\":\"\"}",
        "{\"id\":1,\"x\":bogus,\"text\":\"t\"}",
        "{\"id\":2,\"text\":\"a\"}",
        "{\"id\":3,\"text\":\"b\"}",
    ];
    let (_folder, log) = kept(&texts.join("\n"));
    let rows = by_line(&log);
    let draft = draft_of(&log, &rows, 1, CHAT);
    assert_eq!(draft.rows, [u32::try_from(rows[2]).unwrap()]);
    assert_eq!(
        draft.dropped.into_iter().collect::<Vec<_>>(),
        [(Flaw::Unparsable, 1), (Flaw::NoTrajectory, 1)]
    );
    assert_eq!(draft_of(&log, &rows, 9, CHAT).rows.len(), 2);
}

#[test]
fn more_rows_than_one_batch_come_in_the_order_of_the_draw() {
    let text = (0..1000)
        .map(|at| format!("{{\"id\":{at},\"text\":\"{}\"}}\n", if at % 3 == 0 { "" } else { "t" }))
        .collect::<Vec<_>>()
        .concat();
    let (_folder, log) = kept(&text);
    let draft = draft_of(&log, &by_line(&log), 600, CHAT);
    let ids = logs::held(&draft)
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["karl_fast"]["id"].clone());
    let wanted = (0..).filter(|at| at % 3 != 0).map(|at| Value::String(at.to_string()));
    assert!(ids.eq(wanted.take(600)));
    assert_eq!(draft.dropped[&Flaw::NoTrajectory], 300);
}

#[test]
fn the_judge_drops_rows_and_its_failure_ends_the_job() {
    let (_folder, log) = kept("{\"id\":0,\"text\":\"long long\"}\n{\"id\":1,\"text\":\"short\"}\n");
    let rows = by_line(&log);
    let draft =
        judged(&log, &rows, 1, CHAT, Some(&|line| Ok(line.contains("long").then_some(Flaw::TooManyTokens))));
    assert_eq!((draft.rows.len(), draft.dropped[&Flaw::TooManyTokens]), (1, 1));
    let ranking = karl_core::sample::Ranking::given(&rows, 2).unwrap();
    let facts =
        karl_log::export::SelectionValues { rewards: &[0.0; 2], scores: &[0.0; 2], log_weight: &|_| 0.0 };
    let failing = |_: &str| Err("no tokenizer".to_owned());
    let draft = karl_log::export::draft(
        &log,
        facts,
        karl_log::export::Draw::Ranked { ranking, count: 1, strata: None },
        CHAT,
        Some(&failing),
        &Watch::new(),
    );
    assert!(matches!(draft, Err(Error::Judge(problem)) if problem == "no tokenizer"));
}
