//! Hashes of the training content of a record, and of its prompt.

use std::borrow::Cow;

use karl_core::rng::id128;
use karl_redact::secrets::{SecretCounts, redact};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::example::{Example, example};
use super::openai::{self, THOUGHTS, is_filled};
use super::turn::text_of;
use crate::format::Fields;
use crate::json::reference_parser;

/// Maximum length in bytes of a record that is parsed for comparison: every record of a log is compared, and
/// a parsed one with many short keys takes 34 times the memory of its text.
const PARSED: usize = 8 << 20;

/// Return the hash of a record's training content, before secrets are replaced: its messages and tools, its
/// prompt and completion, or its text. For a record that is not a training example, or is longer than
/// [`PARSED`], return the hash of its bytes.
///
/// A prompt and a completion as texts equal two messages with those texts. Messages are compared by what is
/// learned of them ([`Compared::Learned`]).
pub(crate) fn hash_learned(record: &[u8], fields: &Fields) -> u128 {
    let short = record.len() <= PARSED;
    let example = short.then(|| parse_example(record, fields)).flatten();
    example.map_or_else(|| id128(record), |example| hash(&example))
}

/// Return the hash of a record's prompt, which selects its split if it has no group: the messages before the
/// first learned assistant turn that answers something. Without such a turn, return [`hash_learned`],
/// so that equal records go to one split. Secrets are replaced first, unless they are allowed.
pub(crate) fn prompt(record: &[u8], fields: &Fields, allow_secrets: bool) -> u128 {
    parse_example(record, fields).map_or_else(|| id128(record), |example| prompt_of(&example, allow_secrets))
}

/// Return the same for an example.
pub(crate) fn prompt_of(example: &Example, allow_secrets: bool) -> u128 {
    let asked = match example {
        Example::Chat { messages, .. } => before_answer(messages),
        Example::Completion { prompt, .. } if !prompt.is_empty() => Some(vec![message("user", prompt)]),
        _ => None,
    };
    let Some(asked) = asked else { return hash(example) };
    let asked =
        asked.iter().map(|message| ComparedMessage::of(message, Compared::Asked).to_value()).collect();
    let asked = if allow_secrets { asked } else { redact_value(asked) };
    hash_written(|out| write_sorted(&asked, out))
}

/// Return a value without the secrets in its strings, like in a written row.
fn redact_value(value: Value) -> Value {
    let clean = redact(&value.to_string(), &mut SecretCounts::new());
    clean.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(value)
}

/// Return the text under which a list of messages is hashed as a prompt; `None` for any other list. One
/// message of the user is its text, so that it equals a prompt that is a text.
pub(crate) fn prompt_text(value: &Value) -> Option<String> {
    let messages = value.as_array().filter(|messages| !messages.is_empty())?;
    let all = messages.iter().map(|message| {
        let message = openai::message(message.clone());
        message.get("role")?.is_string().then(|| ComparedMessage::of(&message, Compared::Asked).to_value())
    });
    let all = all.collect::<Option<Vec<_>>>()?;
    match &all[..] {
        [only] if only["role"] == "user" && only["content"].is_string() => {
            only["content"].as_str().map(str::to_owned)
        }
        _ => Some(Value::Array(all).to_string()),
    }
}

fn parse_example(record: &[u8], fields: &Fields) -> Option<Example> {
    Some(example(reference_parser::parse_rollout(record).ok()?, fields).ok()?.example)
}

/// Return the messages before the first learned turn of the model that is not a greeting; `None` if nothing
/// is asked before it.
fn before_answer(messages: &[Value]) -> Option<Vec<Value>> {
    let is_learned = |message: &Value| {
        message["role"] == "assistant" && message.get("weight").and_then(Value::as_f64) != Some(0.0)
    };
    let asked = messages.iter().position(|message| message["role"] == "user" || message["role"] == "tool")?;
    let answer = messages[asked..].iter().position(is_learned).map_or(messages.len(), |at| asked + at);
    Some(messages[..answer].to_vec())
}

/// Purpose for which messages are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// As a prompt: role, text, and calls by name and arguments.
    Asked,
    /// As training content: also reasoning, and whether the turn is learned. The order of keys in arguments
    /// counts, because it is learned.
    Learned,
}

/// What is compared of a message. Ids, times, usage, names, null and empty keys, and parts of text instead of text make
/// no difference; content that is not understood counts as it is.
#[derive(PartialEq)]
struct ComparedMessage<'a> {
    role: Cow<'a, str>,
    content: Cow<'a, str>,
    calls: Option<Vec<ComparedCall<'a>>>,
    reasoning: Vec<&'a Value>,
    is_unlearned: bool,
}

#[derive(PartialEq)]
enum ComparedCall<'a> {
    Function {
        name: Value,
        arguments: Value,
    },
    /// Call of another form.
    Other(&'a Value),
}

impl<'a> ComparedMessage<'a> {
    fn of(message: &'a Value, purpose: Compared) -> Self {
        let get = |key: &str| message.get(key).filter(|value| is_filled(value));
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let content = match message.get("content") {
            None | Some(Value::Null) => Cow::Borrowed(""),
            Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
            Some(content) => Cow::Owned(text_of(content).unwrap_or_else(|| to_sorted_text(content))),
        };
        let calls = get("tool_calls").and_then(Value::as_array);
        let calls = calls.map(|calls| calls.iter().map(|call| ComparedCall::of(call, purpose)).collect());
        let is_learned = purpose == Compared::Learned;
        Self {
            role: compared_role(role),
            content,
            calls,
            reasoning: THOUGHTS.iter().filter_map(|key| get(key)).filter(|_| is_learned).collect(),
            is_unlearned: is_learned && message.get("weight").and_then(Value::as_f64) == Some(0.0),
        }
    }

    /// Return the role, content and calls as a value.
    fn to_value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("role".to_owned(), json!(self.role));
        fields.insert("content".to_owned(), json!(self.content));
        let calls = self.calls.as_ref().map(|calls| calls.iter().map(ComparedCall::to_value).collect());
        fields.extend(calls.map(|calls| ("tool_calls".to_owned(), Value::Array(calls))));
        Value::Object(fields)
    }

    /// Write all of it, with the keys in the order of their letters.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"content\",");
        plain(&self.content, out);
        if !self.reasoning.is_empty() {
            out.extend_from_slice(b"\"reasoning\",[");
            for thought in &self.reasoning {
                write_sorted(thought, out);
            }
            out.push(b']');
        }
        out.extend_from_slice(b"\"role\",");
        plain(&self.role, out);
        if let Some(calls) = &self.calls {
            out.extend_from_slice(b"\"tool_calls\",[");
            for call in calls {
                call.write(out);
            }
            out.push(b']');
        }
        if self.is_unlearned {
            out.extend_from_slice(b"\"weight\",0,");
        }
        out.push(b'}');
    }
}

fn compared_role(role: &str) -> Cow<'_, str> {
    let lower = if role.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(role.to_ascii_lowercase())
    } else {
        Cow::Borrowed(role)
    };
    openai::role(&lower).map_or(lower, Cow::Borrowed)
}

impl<'a> ComparedCall<'a> {
    fn of(call: &'a Value, purpose: Compared) -> Self {
        let Some(mut function) = openai::call(call.clone()) else { return Self::Other(call) };
        openai::expand_arguments(&mut function);
        let mut part = |key: &str| function["function"].get_mut(key).map(Value::take).unwrap_or_default();
        let (name, arguments) = (part("name"), part("arguments"));
        let arguments = match purpose {
            Compared::Asked => json!(to_sorted_text(&arguments)),
            Compared::Learned => arguments,
        };
        Self::Function { name, arguments }
    }

    fn to_value(&self) -> Value {
        let (name, arguments) = match self {
            Self::Function { name, arguments } => (name, arguments),
            Self::Other(call) => return (*call).clone(),
        };
        // `json!` converts values in it, and fails for numbers that are not finite.
        let fields = [("name", name.clone()), ("arguments", arguments.clone())];
        let function = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Value::Object(Map::from_iter([("function".to_owned(), Value::Object(function))]))
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Function { name, arguments } => {
                out.extend_from_slice(b"{\"function\",{\"arguments\",");
                plain(arguments, out);
                out.extend_from_slice(b"\"name\",");
                write_sorted(name, out);
                out.extend_from_slice(b"}}");
            }
            Self::Other(call) => write_sorted(call, out),
        }
    }
}

/// Return whether two messages are equal as parts of a prompt.
pub(crate) fn is_same_message(left: &Value, right: &Value) -> bool {
    ComparedMessage::of(left, Compared::Asked) == ComparedMessage::of(right, Compared::Asked)
}

fn to_sorted_text(value: &Value) -> String {
    let mut out = Vec::new();
    write_sorted(value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

/// Return the hash of what is learned of an example.
pub(crate) fn hash(example: &Example) -> u128 {
    hash_written(|out| match example {
        Example::Chat { messages, tools } => {
            for message in messages {
                ComparedMessage::of(message, Compared::Learned).write(out);
            }
            if let Some(tools) = tools {
                plain(tools, out);
            }
        }
        Example::Completion { prompt, completion } => {
            write_sorted_all(&[message("user", prompt), message("assistant", completion)], out);
        }
        Example::Text(text) => plain(text, out),
    })
}

fn hash_written(write: impl FnOnce(&mut Vec<u8>)) -> u128 {
    let mut out = Vec::new();
    write(&mut out);
    id128(&out)
}

/// Write a value with the keys of its objects sorted, except those of arguments.
fn write_sorted(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            out.push(b'{');
            for key in keys {
                plain(key, out);
                if key == "arguments" { plain(&fields[key], out) } else { write_sorted(&fields[key], out) }
            }
            out.push(b'}');
        }
        Value::Array(values) => {
            out.push(b'[');
            write_sorted_all(values, out);
            out.push(b']');
        }
        value => plain(value, out),
    }
}

fn write_sorted_all(values: &[Value], out: &mut Vec<u8>) {
    for value in values {
        write_sorted(value, out);
    }
}

/// Write a value unchanged; a comma ends it, so that adjacent values stay distinct.
fn plain<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    // Memory takes every byte, and the keys of values are texts: this does not fail.
    let _ = serde_json::to_writer(&mut *out, value);
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
        hash_learned(record.as_bytes(), &fields(None))
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
        let of = |record: String| hash_learned(record.as_bytes(), &fields(Some("x")));
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
        assert_ne!(of(&greeted("hi", "p")), of(&greeted("hi", "q")), "a greeting is not an answer");
        assert_eq!(of(&greeted("hi", "p")), of(&greeted("hi", "p").replace("\"x\"", "\"y\"")));
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
    fn ids_times_nulls_and_parts_make_no_other_message() {
        let plain = json!({"role": "user", "content": "q"});
        let answer = |more: &str| format!(r#"{{"role":"assistant","content":"a"{more}}}"#);
        let of = |asked: &Value, answer: &str| format!(r#"{{"messages":[{asked},{answer}]}}"#);
        let (one, fields) = (of(&plain, &answer("")), fields(None));
        for same in [
            json!({"id": "m1", "role": "user", "content": "q", "timestamp": "2026-01-01", "usage": {"in": 3}}),
            json!({"role": "user", "content": "q", "name": null, "tool_calls": [], "function_call": null}),
            json!({"role": "human", "content": [{"type": "text", "text": "q", "cache_control": {"type": "x"}}]}),
            json!({"from": "human", "value": "q", "name": "alice"}),
        ] {
            let other = of(&same, &answer(r#","id":"m2","refusal":null,"reasoning":"","weight":1"#));
            assert_eq!(
                hash_learned(one.as_bytes(), &fields),
                hash_learned(other.as_bytes(), &fields),
                "{same}"
            );
            assert_eq!(
                prompt(one.as_bytes(), &fields, true),
                prompt(other.as_bytes(), &fields, true),
                "{same}"
            );
            assert_eq!(prompt_text(&json!([same])).as_deref(), Some("q"));
        }
        let thought = of(&plain, &answer(r#","reasoning_content":"t""#));
        assert_ne!(hash_learned(one.as_bytes(), &fields), hash_learned(thought.as_bytes(), &fields));
        let call = |call: &str| of(&plain, &format!(r#"{{"role":"assistant","tool_calls":[{call}]}}"#));
        let called = |text: &str| hash_learned(call(text).as_bytes(), &fields);
        let form = r#"{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}"#;
        assert_eq!(called(form), called(r#"{"name":"f","arguments":{"a":1},"id":"c2","index":0}"#));
        assert_ne!(called(form), called(r#"{"name":"f","arguments":{"a":2}}"#));
    }

    #[test]
    fn a_list_of_messages_is_hashed_as_a_prompt() {
        let two = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]);
        let text = r#"[{"role":"system","content":"s"},{"role":"user","content":"q"}]"#;
        assert_eq!(prompt_text(&two).as_deref(), Some(text));
        for other in [json!([]), json!([1]), json!({"role": "user"}), json!([{"content": "q"}]), json!("q")] {
            assert_eq!(prompt_text(&other), None, "{other}");
        }
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
