//! Pairs and labels: which row is rejected, and rows without one.

use karl_core::sample::Ranking;
use karl_log::Watch;
use karl_log::conversation::Flaw;
use karl_log::export::{Draft, Draw, ExportSettings, SelectionValues, Shape, draft};
use serde_json::{Value, json};

use super::{CHAT, kept, lines};
use crate::logs::{self, by_line};

/// Return the draft of all records, with a reward each, in the order of the file; and the rows of it.
fn draft_of(records: &[Value], rewards: &[f64], shape: Shape) -> (Draft, Vec<Value>) {
    let (_folder, log) = kept(&lines(records));
    let order = by_line(&log);
    let mut values = vec![f64::NAN; log.len()];
    for (&row, &reward) in order.iter().zip(rewards) {
        values[usize::try_from(row).unwrap()] = reward;
    }
    let facts = SelectionValues { rewards: &values, scores: &values, log_weight: &|_| 0.0 };
    let ranking = Ranking::given(&order, log.len()).unwrap();
    let draw = Draw::Ranked { ranking, count: log.len(), strata: None };
    let settings = ExportSettings { shape, ..CHAT };
    let draft = draft(&log, facts, draw, settings, None, &Watch::new()).unwrap();
    let rows = logs::held(&draft).map(|line| serde_json::from_str(line).unwrap()).collect();
    (draft, rows)
}

fn record(id: usize, prompt: &str, answer: &str) -> Value {
    let messages = json!([{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]);
    json!({"id": format!("r{id}"), "group": "g", "messages": messages})
}

fn answered(count: usize) -> Vec<Value> {
    (0..count).map(|id| record(id, "q", &format!("answer {id}"))).collect()
}

fn dropped(draft: &Draft) -> Vec<(Flaw, u64)> {
    draft.dropped.iter().map(|(&flaw, &count)| (flaw, count)).collect()
}

#[test]
fn a_rejected_answer_has_a_lower_reward_that_is_not_lower_by_rounding_alone() {
    let (draft, rows) = draft_of(&answered(3), &[0.1 + 0.2, 0.3, f64::NAN], Shape::Preference);
    assert_eq!((rows.len(), dropped(&draft)), (0, vec![(Flaw::NoRejected, 3)]));
    let (draft, rows) = draft_of(&answered(3), &[0.5, f64::NAN, 0.25], Shape::Preference);
    assert_eq!(dropped(&draft), [(Flaw::NoRejected, 2)]);
    let answers = ["chosen", "rejected"].map(|name| rows[0][name][0]["content"].clone());
    assert_eq!(answers, ["answer 0", "answer 2"]);
    assert_eq!(rows[0]["karl_fast"]["rejected"]["reward"], 0.25);
}

#[test]
fn a_row_that_makes_no_example_is_replaced_as_the_rejected_one() {
    let silent = |id: usize| json!({"id": format!("r{id}"), "group": "g", "messages": [{"role": "user", "content": "q"}]});
    for seeds in 1..6 {
        // Of the lower rows one is good, wherever the seed looks first.
        let mut records = answered(2);
        records.extend((2..2 + seeds).map(silent));
        let rewards = [&[1.0, 0.0][..], &vec![0.0; seeds]].concat();
        let (draft, rows) = draft_of(&records, &rewards, Shape::Preference);
        assert_eq!(rows.len(), 1, "{:?}", draft.dropped);
        assert_eq!(rows[0]["rejected"][0]["content"], "answer 1");
    }
    let (draft, rows) = draft_of(&[answered(1), vec![silent(1)]].concat(), &[1.0, 0.0], Shape::Preference);
    assert_eq!((rows.len(), draft.dropped[&Flaw::BadRejected]), (0, 1));
}

#[test]
fn a_row_of_another_prompt_or_answer_is_replaced_and_else_names_the_flaw() {
    let other = record(1, "another", "b");
    let same = record(2, "q", "answer 0");
    let records = [record(0, "q", "answer 0"), other, same, record(3, "q", "answer 3")];
    let (_, rows) = draft_of(&records, &[1.0, 0.0, 0.0, 0.0], Shape::Preference);
    assert_eq!(rows[0]["rejected"][0]["content"], "answer 3");
    let (draft, _) = draft_of(&records[..2], &[1.0, 0.0], Shape::Preference);
    assert_eq!(draft.dropped[&Flaw::OtherPrompt], 1);
    let (draft, _) = draft_of(&[records[0].clone(), records[2].clone()], &[1.0, 0.0], Shape::Preference);
    assert_eq!(draft.dropped[&Flaw::SameAnswer], 1);
}

#[test]
fn many_pairs_of_one_partner_are_the_same_in_any_batch() {
    let count = 600;
    let rewards: Vec<f64> = (0..count).map(|row| f64::from(u8::from(row > 0))).collect();
    let (_, rows) = draft_of(&answered(count), &rewards, Shape::Preference);
    assert_eq!(rows.len(), count - 1);
    assert!(rows.iter().all(|row| row["rejected"][0]["content"] == "answer 0"));
}

#[test]
fn labels_are_those_of_rewards_that_differ() {
    let (draft, rows) = draft_of(&answered(3), &[0.1 + 0.2, 0.3, 0.3], Shape::Kto);
    assert_eq!((rows.len(), dropped(&draft), draft.label_above), (0, vec![(Flaw::NoLabel, 3)], None));
    let (draft, rows) = draft_of(&answered(3), &[1.0, f64::NAN, 0.0], Shape::Kto);
    assert_eq!((dropped(&draft), draft.label_above), (vec![(Flaw::NoLabel, 1)], Some(0.5)));
    assert_eq!(rows.iter().map(|row| row["label"].clone()).collect::<Vec<_>>(), [json!(true), json!(false)]);
}
