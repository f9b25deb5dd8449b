//! Hashes of the training content of a record, and of its prompt.

use karl_core::rng::id128;
use serde_json::{Value, json};

use super::example::{Example, example};
use crate::format::Fields;
use crate::json::reference_parser;
use crate::secrets::cleaned;

/// Maximum length in bytes of a record that is parsed for comparison: every record of a log is compared, and
/// a parsed one with many short keys takes 34 times the memory of its text.
const PARSED: usize = 8 << 20;

/// Return the hash of a record's training content, before secrets are replaced: its messages and tools, its
/// prompt and completion, or its text. For a record that is not a training example, or is longer than
/// [`PARSED`], return the hash of its bytes.
///
/// A prompt and a completion as texts equal two messages with those texts. The order of keys in a message is
/// ignored; in the arguments of a call it is not, because that order is learned.
pub(crate) fn learned(record: &[u8], fields: &Fields) -> u128 {
    let short = record.len() <= PARSED;
    let example = short.then(|| parsed(record, fields)).flatten();
    example.map_or_else(|| id128(record), |example| hash(&example))
}

/// Return the hash of a record's prompt, which selects its split if it has no group: the messages before the
/// first learned assistant turn, if any of them is not a system message. Otherwise return that of
/// [`learned`], so that equal records go to one split. Secrets are replaced first, unless they are allowed.
pub(crate) fn prompt(record: &[u8], fields: &Fields, allow_secrets: bool) -> u128 {
    parsed(record, fields).map_or_else(|| id128(record), |example| prompt_of(&example, allow_secrets))
}

/// Return the same for an example.
pub(crate) fn prompt_of(example: &Example, allow_secrets: bool) -> u128 {
    let asked = match example {
        Example::Chat { messages, .. } => before_answer(messages),
        Example::Completion { prompt, .. } if !prompt.is_empty() => vec![said("user", prompt)],
        _ => Vec::new(),
    };
    if asked.iter().all(|message| message["role"] == "system") {
        return hash(example);
    }
    let asked = Value::Array(asked);
    let asked = if allow_secrets { asked } else { cleaned(asked) };
    written(|out| sorted(&asked, out))
}

fn parsed(record: &[u8], fields: &Fields) -> Option<Example> {
    Some(example(reference_parser::parse(record).ok()?, fields).ok()?.example)
}

fn before_answer(messages: &[Value]) -> Vec<Value> {
    let unlearned = |message: &Value| message.get("weight").and_then(Value::as_f64) == Some(0.0);
    let asks = |message: &&Value| message["role"] != "assistant" || unlearned(message);
    messages.iter().take_while(asks).cloned().collect()
}

fn said(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

fn hash(example: &Example) -> u128 {
    written(|out| match example {
        Example::Chat { messages, tools } => {
            sorted_all(messages, out);
            if let Some(tools) = tools {
                plain(tools, out);
            }
        }
        Example::Completion { prompt, completion } => {
            sorted_all(&[said("user", prompt), said("assistant", completion)], out);
        }
        Example::Text(text) => plain(&json!(text), out),
    })
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> u128 {
    let mut out = Vec::new();
    write(&mut out);
    id128(&out)
}

/// Write a value with the keys of its objects sorted, except those of arguments.
fn sorted(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            out.push(b'{');
            for key in keys {
                plain(&json!(key), out);
                if key == "arguments" { plain(&fields[key], out) } else { sorted(&fields[key], out) }
            }
            out.push(b'}');
        }
        Value::Array(values) => {
            out.push(b'[');
            sorted_all(values, out);
            out.push(b']');
        }
        value => plain(value, out),
    }
}

fn sorted_all(values: &[Value], out: &mut Vec<u8>) {
    for value in values {
        sorted(value, out);
    }
}

/// Write a value unchanged; a comma ends it, so that adjacent values stay distinct.
fn plain(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b',');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Overrides, by_name};

    fn fields(messages: Option<&str>) -> Fields {
        let overrides = Overrides { messages: messages.map(str::to_owned), ..Overrides::default() };
        Fields::new(by_name("generic").unwrap(), &overrides, None).unwrap()
    }

    fn of(record: &str) -> u128 {
        learned(record.as_bytes(), &fields(None))
    }

    fn chat(last: &str) -> String {
        format!(r#"{{"messages":[{{"role":"user","content":"q"}},{{"role":"assistant",{last}}}]}}"#)
    }

    #[test]
    fn records_that_teach_the_same_have_one_hash() {
        let call = r#""content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":{"a":1}}}]"#;
        let flat = r#""tool_calls":[{"arguments":{"a":1},"name":"f"}],"content":null"#;
        for (one, other) in [
            (chat(r#""content":"a""#), r#"{"id":2,"prompt":"q","completion":"a","reward":0}"#.to_owned()),
            (
                chat(r#""content":"a""#),
                r#"{"prompt":[{"content":"\u0071","role":"user"}],"completion":"a"}"#.to_owned(),
            ),
            (chat(r#""content":"a""#), chat(r#""content":[{"type":"text","text":"a"}]"#)),
            (chat(call), chat(flat)),
            (r#"{"text":"t"}"#.to_owned(), r#"{"id":"b", "text": "t", "label": 1}"#.to_owned()),
        ] {
            assert_eq!(of(&one), of(&other), "{one} {other}");
        }
    }

    #[test]
    fn records_that_teach_something_else_differ() {
        let records = [
            r#"{"prompt":"q","answer":"a"}"#.to_owned(),
            r#"{"prompt":"q","answer":"b"}"#.to_owned(),
            r#"{"prompt":"q","completion":null,"answer":"a"}"#.to_owned(),
            r#"{"prompt":"q","completion":"","answer":"a"}"#.to_owned(),
            r#"{"prompt":[{"role":"user","content":"q"}],"completion":[],"answer":"c"}"#.to_owned(),
            r#"{"messages":[{"role":"user","content":"q"}],"answer":"a"}"#.to_owned(),
            r#"{"messages":[{"role":"user","content":"q"}],"answer":"b"}"#.to_owned(),
            r#"{"prompt":"q","completion":"a"}"#.to_owned(),
            r#"{"prompt":"q","completion":"b"}"#.to_owned(),
            chat(r#""content":"a","tool_calls":[{"name":"f","arguments":{"a":1}}]"#),
            chat(r#""content":"a","tool_calls":[{"name":"f","arguments":{"a":1.0}}]"#),
            chat(r#""content":"a","tool_calls":[{"name":"f","arguments":{"a":1,"b":2}}]"#),
            chat(r#""content":"a","tool_calls":[{"name":"f","arguments":{"b":2,"a":1}}]"#),
            chat(r#""content":"a","tool_calls":[{"name":"g","arguments":{"a":1}}]"#),
            r#"{"prompt":"q","completion":"a","tools":[{"name":"f","parameters":{}}]}"#
                .replace("\"a\"", r#"[{"role":"assistant","content":"a"}]"#),
            r#"{"text":"qa"}"#.to_owned(),
            r#"{"text":""}"#.to_owned(),
            "{}".to_owned(),
        ];
        for (at, one) in records.iter().enumerate() {
            assert!(records[..at].iter().all(|other| of(one) != of(other)), "{one}");
        }
    }

    #[test]
    fn a_conversation_is_found_where_the_caller_says_it_is() {
        let record =
            |said: &str| format!(r#"{{"messages":1,"x":[{{"role":"assistant","content":"{said}"}}]}}"#);
        let of = |record: String| learned(record.as_bytes(), &fields(Some("x")));
        assert_ne!(of(record("a")), of(record("b")));
        assert_eq!(of(record("a")), of(record("a") + " "));
    }

    #[test]
    fn a_prompt_is_what_stands_before_the_first_answer() {
        let of = |record: &str| prompt(record.as_bytes(), &fields(None), false);
        let asked = of(r#"{"id":1,"prompt":"q","completion":"a"}"#);
        for same in
            [&*chat(r#""content":"b""#), r#"{"prompt":[{"content":"q","role":"user"}],"completion":"c"}"#]
        {
            assert_eq!(of(same), asked, "{same}");
        }
        let greeted = |said: &str, asked: &str| {
            format!(
                r#"{{"messages":[{{"role":"system","content":"s"}},{{"role":"assistant","content":"{said}"}},
                {{"role":"user","content":"{asked}"}},{{"role":"assistant","content":"x"}}]}}"#
            )
        };
        assert_ne!(of(&greeted("hi", "p")), of(&greeted("hi", "q")), "a system alone asks nothing");
        assert_eq!(of(&greeted("hi", "p")), of(&greeted("hi", "p")));
        let shown = |asked: &str| {
            format!(
                r#"{{"messages":[{{"role":"user","content":"e"}},{{"role":"assistant","content":"x","weight":0}},
                {{"role":"user","content":"{asked}"}},{{"role":"assistant","content":"y"}}]}}"#
            )
        };
        assert_ne!(of(&shown("p")), of(&shown("q")), "an example that is not learned is of the prompt");
        assert_ne!(of(r#"{"text":"a"}"#), of(r#"{"text":"b"}"#));
        assert_eq!(of(r#"{"id":1,"text":"a"}"#), of(r#"{"id":2,"text":"a"}"#));
    }

    #[test]
    fn prompts_that_differ_by_a_secret_alone_are_one() {
        let token = |last: char| format!("ghp_{}{last}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R");
        let of = |last, allow| {
            let record = json!({"prompt": format!("use {}", token(last)), "completion": "x"});
            prompt(record.to_string().as_bytes(), &fields(None), allow)
        };
        assert_eq!(of('8', false), of('9', false));
        assert_ne!(of('8', true), of('9', true));
    }
}
