//! Chosen records to rows: trimmed, dropped and replaced content, and the shape of a row.

use karl_log::conversation::Flaw;
use karl_log::export::{Draft, Shape};
use serde_json::{Value, json};

use super::{CHAT, kept, lines};
use crate::logs::{self, by_line, draft_of, drafted};

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
        let row = chat(&json!([turn("user", "q"), call])).unwrap();
        call["tool_calls"][0]["function"]["arguments"] = json!({});
        assert_eq!(row["messages"][1], call);
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
        (all.as_str(), Shape::PromptCompletionText, vec!["prompt", "prompt"], 1),
        (all.as_str(), Shape::Text, vec!["text", "text", "text"], 0),
        (&MIXED[1..].join("\n"), Shape::Chat, vec!["prompt"], 1),
        (MIXED[2], Shape::Chat, vec!["text"], 0),
        (MIXED[2], Shape::PromptCompletionText, vec!["text"], 0),
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
    assert_eq!(
        row_of(&record, Shape::PromptCompletionText).unwrap(),
        json!({"prompt": told, "completion": "a"})
    );
    assert_eq!(row_of(&record, Shape::Text).unwrap(), json!({"text": format!("{told}a")}));
    assert_eq!(
        row_of(MIXED[0], Shape::PromptCompletionText).unwrap(),
        json!({"prompt": "q", "completion": "a"})
    );
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

fn chat(messages: &Value) -> Result<Value, Flaw> {
    row_of(&json!({"id": "a", "reward": 1, "messages": messages}).to_string(), Shape::Chat)
}

/// A record's row in a shape, without its stamp; or the flaw that it was dropped for.
fn row_of(record: &str, shape: Shape) -> Result<Value, Flaw> {
    let draft = drafted(record, shape);
    let Some(line) = logs::held(&draft).next() else { return Err(*draft.dropped.keys().next().unwrap()) };
    let mut row: Value = serde_json::from_str(line).unwrap();
    assert!(!line.contains('\n') && row.as_object_mut().unwrap().remove("karl_fast").is_some());
    Ok(row)
}

fn turn(role: &str, content: impl Into<Value>) -> Value {
    json!({"role": role, "content": content.into()})
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
