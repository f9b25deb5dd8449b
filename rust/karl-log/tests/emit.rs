//! Chosen records to rows: what is trimmed, dropped and replaced, what shape they take, and where they go.
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

mod logs;

use karl_log::conversation::Flaw;
use karl_log::export::{Dealing, Draft, ExportSettings, Ordinals, Prepared, Shape};
use karl_log::read::read;
use karl_log::{Error, Log, Watch};
use logs::{by_line, draft_of, drafted, files, folder, judged, open, settings};
use serde_json::{Value, json};

const CHAT: ExportSettings = ExportSettings {
    shape: Shape::Chat,
    allow_secrets: false,
    pseudonyms: None,
    prepared: Prepared::Held,
    max_per_group: None,
    dealt: true,
    threads: 2,
};

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect::<Vec<_>>().concat()
}

/// A record's row in a shape, without its stamp; or the flaw that it was dropped for.
fn row_of(record: &str, shape: Shape) -> Result<Value, Flaw> {
    let draft = drafted(record, shape);
    let Some(line) = logs::held(&draft).next() else { return Err(*draft.dropped.keys().next().unwrap()) };
    let mut row: Value = serde_json::from_str(line).unwrap();
    assert!(!line.contains('\n') && row.as_object_mut().unwrap().remove("karl_fast").is_some());
    Ok(row)
}

fn chat(messages: &Value) -> Result<Value, Flaw> {
    row_of(&json!({"id": "a", "reward": 1, "messages": messages}).to_string(), Shape::Chat)
}

fn turn(role: &str, content: impl Into<Value>) -> Value {
    json!({"role": role, "content": content.into()})
}

#[test]
fn messages_after_the_last_assistant_turn_are_trimmed_and_counted() {
    let kept = [turn("user", "q"), turn("assistant", "a")];
    let all = [&kept[..], &[turn("tool", "t"), turn("user", "bye")]].concat();
    let draft = drafted(lines(&[json!({"messages": all}), json!({"messages": kept})]), Shape::Chat);
    assert_eq!((draft.lines.len(), draft.trimmed_rows, draft.trimmed_messages), (2, 1, 2));
    assert_eq!(chat(&json!(all)).unwrap(), json!({"messages": kept}));
}

#[test]
fn what_nothing_can_be_learnt_from_is_dropped_by_name() {
    let call = json!({"role": "assistant", "tool_calls": []});
    for (messages, flaw) in [
        (json!([turn("user", "q")]), Flaw::NoAssistantTurn),
        (json!([]), Flaw::NoAssistantTurn),
        (json!([turn("user", Value::Null), turn("assistant", "a")]), Flaw::EmptyMessage),
        (json!([turn("user", "q"), call]), Flaw::EmptyMessage),
        (json!([turn("user", 5), turn("assistant", "a")]), Flaw::BadMessage),
        (json!([{"content": "q"}, turn("assistant", "a")]), Flaw::BadMessage),
        (json!(["q", turn("assistant", "a")]), Flaw::BadMessage),
        (json!([turn("user", json!([{"type": "image_url"}])), turn("assistant", "a")]), Flaw::BadMessage),
        (json!("q"), Flaw::BadMessage),
        (Value::Null, Flaw::NoTrajectory),
    ] {
        assert_eq!(chat(&messages), Err(flaw), "{messages}");
    }
}

#[test]
fn a_message_without_content_may_call_a_tool() {
    for content in [json!({"role": "assistant"}), turn("assistant", Value::Null)] {
        let mut call = content;
        call["tool_calls"] = json!([{"function": {"name": "f", "arguments": "{}"}}]);
        assert_eq!(chat(&json!([turn("user", "q"), call])).unwrap()["messages"][1], call);
    }
}

#[test]
fn parts_of_text_are_joined() {
    let parts = json!([{"type": "text", "text": "a"}, {"text": "b"}]);
    let row = chat(&json!([turn("user", parts), turn("assistant", "c")])).unwrap();
    assert_eq!(row["messages"][0], turn("user", "ab"));
}

#[test]
fn prompt_and_completion_may_be_texts_or_messages_or_one_of_each() {
    let pair = |prompt: Value, completion: Value| {
        row_of(&json!({"prompt": prompt, "completion": completion}).to_string(), Shape::Chat)
    };
    let wanted = json!({"messages": [turn("user", "q"), turn("assistant", "a")]});
    let (user, assistant) = (json!([turn("user", "q")]), json!([turn("assistant", "a")]));
    for (prompt, completion) in
        [(user.clone(), assistant.clone()), (json!("q"), assistant), (user, json!("a"))]
    {
        assert_eq!(pair(prompt, completion).unwrap(), wanted);
    }
    assert_eq!(pair(json!("q"), json!("a")).unwrap(), json!({"prompt": "q", "completion": "a"}));
    assert_eq!(pair(json!("q"), json!("")), Err(Flaw::NoAssistantTurn));
    assert_eq!(pair(json!("q"), Value::Null), Err(Flaw::NoTrajectory));
}

const MIXED: [&str; 3] = [
    r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}"#,
    r#"{"prompt":"p","completion":"c"}"#,
    r#"{"text":"t"}"#,
];

/// The first key of each row.
fn shapes(draft: &Draft) -> Vec<String> {
    let key =
        |line: &str| serde_json::from_str::<Value>(line).unwrap().as_object().unwrap().keys().next().cloned();
    logs::held(draft).map(|line| key(line).unwrap()).collect()
}

#[test]
fn a_mixed_data_set_takes_one_shape_and_counts_what_cannot_take_it() {
    let all = MIXED.join("\n");
    for (text, shape, wanted, other) in [
        (all.as_str(), Shape::Chat, vec!["messages", "messages"], 1),
        (all.as_str(), Shape::PromptCompletion, vec!["prompt", "prompt"], 1),
        (all.as_str(), Shape::Text, vec!["text", "text", "text"], 0),
        (&MIXED[1..].join("\n"), Shape::Chat, vec!["prompt"], 1),
        (MIXED[2], Shape::Chat, vec!["text"], 0),
        (MIXED[2], Shape::PromptCompletion, vec!["text"], 0),
    ] {
        let draft = drafted(text, shape);
        assert_eq!(shapes(&draft), wanted, "{shape:?}");
        assert_eq!(draft.dropped.get(&Flaw::OtherShape).copied().unwrap_or(0), other, "{shape:?}");
    }
}

#[test]
fn records_that_fail_do_not_decide_the_shape() {
    let (_folder, log) = kept(&format!("{{\"x\":1}}\n{}\n{}\n", MIXED[0], MIXED[2]));
    let draft = draft_of(&log, &by_line(&log), 1, CHAT);
    assert_eq!((draft.shape, shapes(&draft)), (Some(Shape::Chat), vec!["messages".to_owned()]));
}

#[test]
fn a_conversation_as_prompt_and_completion_or_as_text_keeps_every_turn() {
    let call =
        json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]});
    let record =
        json!({"messages": [turn("user", "q"), call, turn("tool", "r"), turn("assistant", "a")]}).to_string();
    let told = "user: q\n\nassistant: [tool_call f {\"x\":1}]\n\ntool: r\n\nassistant: ";
    assert_eq!(row_of(&record, Shape::PromptCompletion).unwrap(), json!({"prompt": told, "completion": "a"}));
    assert_eq!(row_of(&record, Shape::Text).unwrap(), json!({"text": format!("{told}a")}));
    assert_eq!(row_of(MIXED[0], Shape::PromptCompletion).unwrap(), json!({"prompt": "q", "completion": "a"}));
}

#[test]
fn raw_rows_are_the_records_bytes() {
    let record =
        "{ \"id\":1 , \"x\":1.50e0,\"n\":NaN,\"e\":\"\\u00e9\\/\",\"big\":123456789012345678901234567890 }";
    let draft = drafted(format!("  {record} \r\n{record}{record}\n"), Shape::Raw);
    assert!(logs::held(&draft).eq([record; 3]));
}

#[test]
fn a_raw_record_with_a_line_break_inside_becomes_one_line() {
    for space in ["\n", "\r", "\r\n"] {
        let record = format!("[{{\"id\":1.50,{space}\"x\":\"a\\nb\"}}]");
        assert!(logs::held(&drafted(record, Shape::Raw)).eq([r#"{"id":1.50,"x":"a\nb"}"#]));
    }
}

#[test]
fn numbers_keep_their_digits_and_python_words_become_null() {
    let record = r#"{"messages":[{"role":"assistant","content":"a","n":[NaN,-Infinity,1.50,1e400]}]}"#;
    let draft = drafted(record, Shape::Chat);
    let line = logs::first(&draft);
    assert!(line.contains(r#""n":[null,null,1.50,1e400]"#), "{line}");
}

#[test]
fn every_row_is_stamped() {
    let stamp = |record: &str| -> Value {
        serde_json::from_str::<Value>(logs::first(&drafted(record, Shape::Chat))).unwrap()["karl_fast"].take()
    };
    let wanted =
        json!({"id": "7", "group": "g", "reward": 0.5, "score": 0.5, "log_weight": 0.5, "copies": 1});
    assert_eq!(stamp(r#"{"id":7,"group":"g","text":"t"}"#).to_string(), wanted.to_string());
    let beside = stamp(r#"{"id":7,"group":"g","domain":"d","text":"t"}"#);
    assert_eq!(beside.to_string(), wanted.to_string().replace(r#""g","#, r#""g","domain":"d","#));
    assert_eq!(stamp(r#"{"text":"t"}"#)["group"], Value::Null);
    assert_eq!(stamp(r#"{"text":"t"}"#)["id"].as_str().unwrap().len(), 32);
}

/// A log whose files stay.
fn kept(text: &str) -> (tempfile::TempDir, Log) {
    let folder = folder();
    let log = read(open(&files(&folder, &[text])), &settings(), &Watch::new()).unwrap();
    (folder, log)
}

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
    let facts = karl_log::export::RowFacts { rewards: &[0.0; 2], scores: &[0.0; 2], log_weight: &|_| 0.0 };
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
    for shape in [Shape::Chat, Shape::PromptCompletion, Shape::Text, Shape::Raw] {
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

#[test]
fn rows_of_one_file_have_the_same_keys() {
    let chat =
        r#""messages":[{"role":"user","content":"\"karl_fast\":{"},{"role":"assistant","content":"a"}]"#;
    let (_folder, log) =
        kept(&format!("{{\"id\":0,{chat},\"tools\":[{{\"name\":\"t\"}}]}}\n{{\"id\":1,{chat}}}\n"));
    let draft = draft_of(&log, &by_line(&log), 2, CHAT);
    let rows: Vec<Value> = logs::held(&draft).map(|line| serde_json::from_str(line).unwrap()).collect();
    let keys = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&rows[0]), ["messages", "tools", "karl_fast"]);
    assert_eq!(keys(&rows[1]), keys(&rows[0]));
    assert_eq!((&rows[1]["tools"], &rows[1]["messages"]), (&Value::Null, &rows[0]["messages"]));
}
