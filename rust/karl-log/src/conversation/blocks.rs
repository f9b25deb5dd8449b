//! Content blocks of all products in one form: text, thinking, calls of tools and their results.
//!
//! ```text
//! OpenAI chat, OpenAI Responses, Anthropic, Gemini, Bedrock, the AI SDK, ──► Block ──► messages of chat templates
//! OpenTelemetry's parts, Pi, opencode                                         (rollouts: here; transcripts: convert)
//! ```
//!
//! A block that is none of these keeps its name: a caller leaves it out and counts it, or drops its row. Nothing is
//! written in its place.

use serde_json::{Map, Value, json};

use super::openai::{THOUGHTS, is_filled, role};

/// One block of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Text.
    Text(String),
    /// Thoughts of the model.
    Thinking(String),
    /// Call of a tool.
    Call {
        /// Id, empty if there is none.
        id: String,
        /// Tool.
        name: String,
        /// Arguments: an object, or the text that the model wrote.
        arguments: Value,
    },
    /// Result of a call.
    Result {
        /// Id of the call, empty if there is none.
        id: String,
        /// Tool, empty if it is not named.
        name: String,
        /// Content of any form that [`blocks`] reads.
        content: Value,
        /// Whether the call succeeded, if the block says so.
        success: Option<bool>,
    },
    /// Medium or other content that is not text, by the name of its kind.
    Other(String),
    /// Block without content.
    Empty,
}

/// Return the blocks of a content: a text, one block, or a list of both.
#[must_use]
pub fn blocks(content: &Value) -> Vec<Block> {
    let all = match content {
        Value::Array(parts) => parts.iter().map(block).collect(),
        content => vec![block(content)],
    };
    all.into_iter().filter(|block| *block != Block::Empty).collect()
}

/// Return a value as a block.
#[must_use]
pub fn block(value: &Value) -> Block {
    match value {
        Value::Null => Block::Empty,
        Value::String(text) => text_block(text),
        Value::Object(fields) => match text(value, "type") {
            Some(kind) => typed(kind, value),
            None => untyped(fields),
        },
        _ => Block::Other("value".to_owned()),
    }
}

fn text_block(text: &str) -> Block {
    if text.is_empty() { Block::Empty } else { Block::Text(text.to_owned()) }
}

/// Return a block that names its type.
fn typed(kind: &str, value: &Value) -> Block {
    match kind {
        "text" | "input_text" | "output_text" => match first_text(value, &["text", "content"]) {
            Some(words) => text_block(words),
            None => Block::Other(kind.to_owned()),
        },
        "thinking" | "reasoning" | "reasoning_text" | "summary_text" => thinking(kind, value),
        "tool_use" | "server_tool_use" | "mcp_tool_use" | "toolCall" | "tool_call" | "tool-call"
        | "function_call" => call(kind, value),
        // The model writes one text, whatever the tool reads in it.
        "custom_tool_call" => match text(value, "name") {
            Some(name) => Block::Call {
                id: first_text(value, &["call_id", "id"]).unwrap_or_default().to_owned(),
                name: name.to_owned(),
                // `json!` converts values in it, and fails for numbers that are not finite.
                arguments: Value::Object(Map::from_iter([(
                    "input".to_owned(),
                    value.get("input").cloned().unwrap_or_default(),
                )])),
            },
            None => Block::Other(kind.to_owned()),
        },
        "local_shell_call" => Block::Call {
            id: first_text(value, &["call_id", "id"]).unwrap_or_default().to_owned(),
            name: "local_shell".to_owned(),
            arguments: value.get("action").cloned().unwrap_or_else(|| json!({})),
        },
        "tool_result"
        | "tool-result"
        | "tool_call_response"
        | "function_call_output"
        | "custom_tool_call_output"
        | "local_shell_call_output"
        | "mcp_tool_result" => result(value),
        kind => Block::Other(kind.to_owned()),
    }
}

fn thinking(kind: &str, value: &Value) -> Block {
    if value.get("redacted") == Some(&Value::Bool(true)) {
        let summary = text(value, "summary").filter(|words| !words.is_empty());
        return summary.map_or_else(
            || Block::Other("redacted_reasoning".to_owned()),
            |words| Block::Thinking(words.to_owned()),
        );
    }
    if let Some(words) = first_text(value, &["thinking", "text", "reasoning", "content", "summary"]) {
        return if words.is_empty() { Block::Empty } else { Block::Thinking(words.to_owned()) };
    }
    // Responses: a summary and the raw thoughts, both lists of parts.
    let parts =
        ["summary", "content", "thinking"].iter().filter_map(|key| value.get(*key)?.as_array()).flatten();
    let words: Vec<&str> = parts.filter_map(|part| text(part, "text")).collect();
    match (words.is_empty(), value.get("encrypted_content").is_some_and(is_filled)) {
        (false, _) => Block::Thinking(words.join("\n")),
        (true, true) => Block::Other("encrypted_reasoning".to_owned()),
        (true, false) if kind == "reasoning" => Block::Empty,
        (true, false) => Block::Other(kind.to_owned()),
    }
}

fn call(kind: &str, value: &Value) -> Block {
    let Some(name) = first_text(value, &["name", "toolName"]).filter(|name| !name.is_empty()) else {
        return Block::Other(kind.to_owned());
    };
    let arguments = ["input", "arguments", "args"].iter().find_map(|key| value.get(*key)).cloned();
    Block::Call {
        id: first_text(value, &["call_id", "toolCallId", "id"]).unwrap_or_default().to_owned(),
        name: name.to_owned(),
        arguments: arguments.unwrap_or_else(|| json!({})),
    }
}

fn result(value: &Value) -> Block {
    let content = ["content", "output", "response", "result"].iter().find_map(|key| value.get(*key));
    let failed = ["is_error", "isError"].iter().find_map(|key| value.get(*key)?.as_bool());
    Block::Result {
        id: first_text(value, &["tool_use_id", "call_id", "toolCallId", "id"]).unwrap_or_default().to_owned(),
        name: first_text(value, &["toolName", "name"]).unwrap_or_default().to_owned(),
        content: content.cloned().unwrap_or_default(),
        success: failed.map(|failed| !failed),
    }
}

/// Return a block that is named by its key: a part of Gemini or of Bedrock.
fn untyped(fields: &Map<String, Value>) -> Block {
    let of = |keys: [&str; 2]| keys.iter().find_map(|key| fields.get(*key)).filter(|value| value.is_object());
    if let Some(call) = of(["functionCall", "function_call"]).or_else(|| of(["toolUse", "tool_use"])) {
        let arguments = ["args", "input", "arguments"].iter().find_map(|key| call.get(*key)).cloned();
        return match text(call, "name") {
            Some(name) => Block::Call {
                id: first_text(call, &["id", "toolUseId"]).unwrap_or_default().to_owned(),
                name: name.to_owned(),
                arguments: arguments.unwrap_or_else(|| json!({})),
            },
            None => Block::Other("functionCall".to_owned()),
        };
    }
    if let Some(answer) = of(["functionResponse", "function_response"]) {
        return Block::Result {
            id: text(answer, "id").unwrap_or_default().to_owned(),
            name: text(answer, "name").unwrap_or_default().to_owned(),
            content: answer.get("response").map(response).unwrap_or_default(),
            success: answer
                .get("response")
                .and_then(|response| response.get("error"))
                .map(|error| !is_filled(error)),
        };
    }
    if let Some(answer) = of(["toolResult", "tool_result"]) {
        return Block::Result {
            id: text(answer, "toolUseId").unwrap_or_default().to_owned(),
            name: String::new(),
            content: answer.get("content").cloned().unwrap_or_default(),
            success: text(answer, "status").map(|status| status == "success"),
        };
    }
    let thought =
        fields.get("reasoningContent").and_then(|thought| thought.pointer("/reasoningText/text")?.as_str());
    if let Some(thought) = thought {
        return Block::Thinking(thought.to_owned());
    }
    match fields.get("text").and_then(Value::as_str) {
        Some(words) if fields.get("thought") == Some(&Value::Bool(true)) => Block::Thinking(words.to_owned()),
        Some(words) if has_only_text(fields) => text_block(words),
        _ => Block::Other(fields.keys().next().cloned().unwrap_or_else(|| "block".to_owned())),
    }
}

/// Return whether a part has nothing beside its text but its signature and its flags.
fn has_only_text(fields: &Map<String, Value>) -> bool {
    let plain = [
        "text",
        "thought",
        "thoughtSignature",
        "thought_signature",
        "cache_control",
        "citations",
        "annotations",
    ];
    fields.iter().all(|(key, value)| plain.contains(&&**key) || !is_filled(value))
}

/// Return the content of Gemini's response of a function: its only text, or all of it.
fn response(value: &Value) -> Value {
    let fields = value.as_object().filter(|fields| fields.len() == 1);
    let only = fields
        .and_then(|fields| ["output", "error", "result", "content"].iter().find_map(|key| fields.get(*key)));
    only.filter(|only| only.is_string() || only.is_array()).unwrap_or(value).clone()
}

/// Return the text of a result: a text, or its text blocks, and everything else as JSON. `Err` names a block that is
/// not text.
///
/// # Errors
/// The kind of a medium or of another block.
pub fn result_text(content: &Value) -> Result<String, String> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) if parts.iter().all(is_block) => {
            let texts = parts.iter().map(|part| match block(part) {
                Block::Text(text) | Block::Thinking(text) => Ok(text),
                Block::Empty => Ok(String::new()),
                Block::Other(kind) => Err(kind),
                Block::Call { .. } | Block::Result { .. } => Err("call".to_owned()),
            });
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        Value::Object(fields) if is_block(content) && !fields.contains_key("value") => match block(content) {
            Block::Text(text) => Ok(text),
            Block::Other(kind) => Err(kind),
            _ => Ok(content.to_string()),
        },
        // The AI SDK: {"type": "text" | "json" | "error-text" | "error-json", "value"}.
        Value::Object(fields)
            if fields.get("type").is_some_and(Value::is_string) && fields.contains_key("value") =>
        {
            result_text(&fields["value"])
        }
        other => Ok(other.to_string()),
    }
}

/// Return whether a value has the form of a block.
fn is_block(value: &Value) -> bool {
    value.is_string()
        || value.as_object().is_some_and(|fields| {
            fields.get("type").is_some_and(Value::is_string)
                || (fields.len() == 1 && fields.contains_key("text"))
        })
}

/// Types of items of `OpenAI`'s Responses that have no role.
const ITEMS: [&str; 8] = [
    "reasoning",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "mcp_tool_result",
];

/// Return messages in the form of chat templates: blocks of calls, results and thoughts become the keys and messages
/// that these have, and items of the Responses interface become the messages that they are parts of. A message with
/// another block is returned unchanged.
#[must_use]
pub fn chat_messages(messages: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    // Whether the last message is the model's, of items, and may have more of them.
    let mut is_open = false;
    for message in messages {
        let kind = text(&message, "type").unwrap_or_default();
        let is_item = message.get("role").is_none() && ITEMS.contains(&kind);
        let is_part = is_item || (kind == "message" && text(&message, "role") == Some("assistant"));
        let translated = if is_item { item(&message) } else { translate(&message) };
        let Some(translated) = translated else {
            match out.last_mut() {
                Some(last) if is_open && is_part && last["role"] == "assistant" && is_text_only(&message) => {
                    merge(last, message);
                }
                _ => out.push(message),
            }
            is_open = is_part;
            continue;
        };
        for message in translated {
            let is_model = message["role"] == "assistant";
            match out.last_mut() {
                Some(last) if is_open && is_part && is_model && last["role"] == "assistant" => {
                    merge(last, message);
                }
                _ => out.push(message),
            }
            is_open = is_part && is_model;
        }
    }
    out
}

/// Return whether the parts of a message are text, and so stay as they are.
fn is_text_only(message: &Value) -> bool {
    let parts = message.get("content").and_then(Value::as_array);
    parts.is_some_and(|parts| parts.iter().all(|part| matches!(block(part), Block::Text(_))))
}

/// Return the message of an item without a role.
fn item(item: &Value) -> Option<Vec<Value>> {
    let model = || json!({"role": "assistant", "content": []});
    written(&[block(item)], &model)
}

/// Return the messages of one with blocks; `None` if it has none, or another block.
fn translate(message: &Value) -> Option<Vec<Value>> {
    let fields = message.as_object()?;
    let key = ["content", "parts"].into_iter().find(|key| fields.get(*key).is_some_and(Value::is_array))?;
    let is_text = |part: &Value| {
        part.is_string() || matches!(block(part), Block::Text(_)) && part.get("text").is_some()
    };
    let parts = fields[key].as_array().filter(|parts| key == "parts" || !parts.iter().all(is_text))?;
    let all: Vec<Block> = parts.iter().map(block).collect();
    let speaker = role(&text(message, "role")?.to_ascii_lowercase())?;
    let rest = || {
        let mut rest = fields.clone();
        rest.shift_remove(key);
        rest.insert("content".to_owned(), json!([]));
        Value::Object(rest)
    };
    // A call in the name of anybody but the model is not understood.
    let is_foreign =
        |block: &Block| matches!(block, Block::Call { .. } | Block::Thinking(_)) && speaker != "assistant";
    if all.is_empty() || all.iter().any(is_foreign) { None } else { written(&all, &rest) }
}

/// Return the messages of some blocks, each begun by `rest`; results are messages of their own.
fn written(blocks: &[Block], rest: &dyn Fn() -> Value) -> Option<Vec<Value>> {
    let mut out = Vec::new();
    let mut open: Option<Value> = None;
    for block in blocks {
        match block {
            Block::Empty => {
                open.get_or_insert_with(rest);
            }
            Block::Other(_) => return None,
            Block::Text(text) => {
                push(open.get_or_insert_with(rest), "content", text_part(text));
            }
            Block::Thinking(text) => think(open.get_or_insert_with(rest), THOUGHTS[0], text),
            Block::Call { id, name, arguments } => {
                let mut call = json!({"type": "function", "function": {"name": name}});
                // `json!` fails for numbers that are not finite.
                call["function"]["arguments"] = arguments.clone();
                if !id.is_empty() {
                    call["id"] = json!(id);
                }
                push(open.get_or_insert_with(rest), "tool_calls", call);
            }
            Block::Result { id, name, content, success } => {
                out.extend(open.take().filter(has_content));
                let mut message = json!({"role": "tool", "content": result_text(content).ok()?});
                for (key, text) in [("tool_call_id", id), ("name", name)] {
                    if !text.is_empty() {
                        message[key] = json!(text);
                    }
                }
                if let Some(success) = success {
                    message["success"] = json!(success);
                }
                out.push(message);
            }
        }
    }
    out.extend(open.filter(|open| out.is_empty() || has_content(open)));
    Some(out)
}

fn has_content(message: &Value) -> bool {
    ["content", "tool_calls", "reasoning_content"].iter().any(|key| message.get(*key).is_some_and(is_filled))
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Add a value to a list of a message. A text in its place becomes the first part of the list.
fn push(message: &mut Value, key: &str, value: Value) {
    let mut values = match message.get_mut(key).map(Value::take) {
        Some(Value::Array(values)) => values,
        Some(Value::String(text)) if !text.is_empty() => vec![text_part(&text)],
        None | Some(Value::Null | Value::String(_)) => Vec::new(),
        Some(other) => vec![other],
    };
    values.push(value);
    message[key] = Value::Array(values);
}

fn think(message: &mut Value, key: &str, text: &str) {
    let before = self::text(message, key).filter(|before| !before.is_empty());
    message[key] = json!(before.map_or_else(|| text.to_owned(), |before| format!("{before}\n{text}")));
}

/// Add the blocks of a message of the model to those of the one before it.
fn merge(message: &mut Value, more: Value) {
    let Value::Object(more) = more else { return };
    for (key, value) in more {
        match (&*key, value) {
            ("role", _) | (_, Value::Null) => {}
            (_, Value::Array(values)) => {
                for value in values {
                    push(message, &key, value);
                }
            }
            ("content", Value::String(text)) if text.is_empty() => {}
            ("content", Value::String(text)) => push(message, &key, text_part(&text)),
            ("content", value) => push(message, &key, value),
            (thought, Value::String(text)) if THOUGHTS.contains(&thought) => think(message, &key, &text),
            (_, value) => message[&*key] = value,
        }
    }
}

/// Return the kind of the first medium among the blocks of a content, in the plural.
pub(super) fn medium_of(content: &Value) -> Option<&'static str> {
    let kinds = content.as_array()?.iter().filter_map(|part| match block(part) {
        Block::Other(kind) => Some(kind.to_ascii_lowercase()),
        _ => None,
    });
    let nouns = [("image", "images"), ("video", "videos"), ("audio", "audio")];
    kinds
        .filter_map(|kind| nouns.into_iter().find(|(noun, _)| kind.contains(noun)))
        .map(|(_, kind)| kind)
        .next()
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

fn first_text<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter().find_map(|key| text(value, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_of(value: &Value) -> (String, String, Value) {
        match block(value) {
            Block::Call { id, name, arguments } => (id, name, arguments),
            other => panic!("{value}: {other:?}"),
        }
    }

    #[test]
    fn a_call_of_every_product_is_one_block() {
        for value in [
            json!({"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}),
            json!({"type": "toolCall", "id": "c", "name": "f", "arguments": {"a": 1}}),
            json!({"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}}),
            json!({"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {"a": 1}}),
            json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": {"a": 1}}),
            json!({"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}}),
            json!({"toolUse": {"toolUseId": "c", "name": "f", "input": {"a": 1}}}),
        ] {
            assert_eq!(call_of(&value), ("c".to_owned(), "f".to_owned(), json!({"a": 1})));
        }
    }

    #[test]
    fn a_result_of_every_product_is_one_block() {
        for value in [
            json!({"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": false}),
            json!({"type": "tool_call_response", "id": "c", "response": "x"}),
            json!({"type": "function_call_output", "call_id": "c", "output": "x"}),
            json!({"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": {"type": "text", "value": "x"}}),
            json!({"functionResponse": {"id": "c", "name": "f", "response": {"output": "x"}}}),
            json!({"toolResult": {"toolUseId": "c", "content": [{"text": "x"}], "status": "success"}}),
        ] {
            let Block::Result { id, content, success, .. } = block(&value) else { panic!("{value}") };
            assert_eq!((&*id, result_text(&content)), ("c", Ok("x".to_owned())), "{value}");
            assert_ne!(success, Some(false));
        }
    }

    #[test]
    fn thoughts_of_every_product_are_one_block_and_hidden_ones_keep_their_name() {
        for value in [
            json!({"type": "thinking", "thinking": "t", "signature": "s"}),
            json!({"type": "reasoning", "content": "t"}),
            json!({"type": "reasoning", "text": "t"}),
            json!({"type": "reasoning", "reasoning": "t"}),
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]}),
            json!({"text": "t", "thought": true}),
        ] {
            assert_eq!(block(&value), Block::Thinking("t".to_owned()), "{value}");
        }
        for (value, kind) in [
            (json!({"type": "redacted_thinking", "data": "x"}), "redacted_thinking"),
            (json!({"type": "reasoning", "summary": [], "encrypted_content": "x"}), "encrypted_reasoning"),
            (json!({"type": "image", "source": {}}), "image"),
            (json!({"inlineData": {"data": "x"}}), "inlineData"),
            (json!({"type": "tool_use", "input": {}}), "tool_use"),
        ] {
            assert_eq!(block(&value), Block::Other(kind.to_owned()));
        }
    }

    #[test]
    fn messages_of_anthropic_become_those_of_chat_templates() {
        let messages = chat_messages(vec![
            json!({"role": "user", "content": "fix"}),
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "a"}}]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "A"}]},
                {"type": "text", "text": "Go on."}]}),
        ]);
        assert_eq!(
            messages,
            [
                json!({"role": "user", "content": "fix"}),
                json!({"role": "assistant", "content": [{"type": "text", "text": "I look."}], "reasoning_content": "hm",
                "tool_calls": [{"type": "function", "function": {"name": "read", "arguments": {"path": "a"}}, "id": "c"}]}),
                json!({"role": "tool", "content": "A", "tool_call_id": "c"}),
                json!({"role": "user", "content": [{"type": "text", "text": "Go on."}]}),
            ]
        );
    }

    #[test]
    fn items_of_responses_become_messages_and_those_of_one_turn_are_one() {
        let messages = chat_messages(vec![
            json!({"role": "user", "content": "fix"}),
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}),
            json!({"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}),
            json!({"type": "function_call", "call_id": "d", "name": "read", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "c", "output": "A"}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}),
        ]);
        let roles: Vec<_> =
            messages.iter().map(|message| message["role"].as_str().unwrap_or_default()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
        assert_eq!(
            (messages[1]["tool_calls"].as_array().map(Vec::len), &messages[1]["reasoning_content"]),
            (Some(2), &json!("hm"))
        );
    }

    #[test]
    fn a_text_beside_other_items_of_its_turn_is_not_lost() {
        let message = |content: Value| json!({"type": "message", "role": "assistant", "content": content});
        let part = |text: &str| message(json!([{"type": "output_text", "text": text}]));
        let look = message(json!("I look."));
        let thought = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]});
        let call = json!({"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"});
        let merged = |items: &[Value]| {
            let messages = chat_messages(items.to_vec());
            assert_eq!(messages.len(), 1, "{messages:?}");
            messages[0].clone()
        };
        let texts = |message: &Value| blocks(&message["content"]);
        let wanted = ["I look.", "Done."].map(|text| Block::Text(text.to_owned()));
        assert_eq!(texts(&merged(&[look.clone(), part("Done.")])), wanted);
        let whole = merged(&[look, thought, call.clone(), part("Done.")]);
        assert_eq!(texts(&whole), wanted);
        assert_eq!((&whole["reasoning_content"], &whole["tool_calls"][0]["id"]), (&json!("hm"), &json!("c")));
        // Nor is what stands under other keys.
        let [mut first, mut last] = ["I look.", "Done."].map(part);
        (first["reasoning"], last["reasoning"], last["tool_calls"]) = (json!("a"), json!("b"), Value::Null);
        let whole = merged(&[call, first, last]);
        assert_eq!((texts(&whole), &whole["reasoning"]), (wanted.to_vec(), &json!("a\nb")));
        assert_eq!(whole["tool_calls"][0]["id"], "c");
    }

    #[test]
    fn a_message_with_a_block_that_is_not_read_stays_as_it_is() {
        for message in [
            json!({"role": "user", "content": [{"type": "image", "source": {}}, {"type": "text", "text": "x"}]}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image"}]}]}),
            json!({"role": "user", "content": [{"type": "text", "text": "x"}]}),
            json!({"content": [{"type": "thinking", "thinking": "x"}]}),
            json!("x"),
        ] {
            assert_eq!(chat_messages(vec![message.clone()]), [message]);
        }
    }
}
