//! Messages, tool calls and tools in the form that chat templates know.

use serde_json::{Map, Value, json};

use crate::trusted;

/// A call as `{"id", "type": "function", "function": {"name", "arguments"}}`, made of a flat one, or of the JSON text
/// of either; none where it is no call.
pub(crate) fn call(call: Value) -> Option<Value> {
    let call = match call {
        Value::String(text) => trusted::parse(text.as_bytes()).ok()?,
        call => call,
    };
    let Value::Object(mut fields) = call else { return None };
    if fields.contains_key("function") || !fields.get("name").is_some_and(Value::is_string) {
        return Some(Value::Object(fields));
    }
    let name = fields.shift_remove("name");
    let arguments = fields.shift_remove("arguments").unwrap_or_else(|| json!("{}"));
    let mut made = Map::new();
    made.extend(fields.shift_remove("id").map(|id| ("id".to_owned(), id)));
    made.insert("type".to_owned(), json!("function"));
    made.insert("function".to_owned(), json!({"name": name, "arguments": arguments}));
    fields.shift_remove("type");
    made.extend(fields);
    Some(Value::Object(made))
}

/// The messages of a conversation. One of `ShareGPT` that does not begin with a message from the system begins with the
/// text that `LLaMA-Factory` keeps of it beside the conversation, which is taken.
pub(super) fn conversation(messages: Vec<Value>, system: Option<&mut Value>) -> Vec<Value> {
    let first = messages.first();
    let shared = first.is_some_and(|first| first.get("role").is_none() && first.get("from").is_some());
    let mut messages: Vec<Value> = messages.into_iter().map(message).collect();
    let lacks =
        shared && messages.first().is_some_and(|first| !matches!(said_by(first), None | Some("system")));
    let text = system.filter(|system| lacks && system.as_str().is_some_and(|text| !text.is_empty()));
    if let Some(text) = text {
        messages.insert(0, json!({"role": "system", "content": text.take()}));
    }
    messages
}

fn said_by(message: &Value) -> Option<&str> {
    message.get("role")?.as_str()
}

/// A message as `{"role", "content"}`, made of one of `ShareGPT`, `{"from", "value"}`; what is none, or from nobody known,
/// stays as it is.
fn message(message: Value) -> Value {
    let Value::Object(mut fields) = message else { return message };
    let from = fields.get("from").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let own = ["role", "content", "tool_calls"].iter().any(|&key| fields.contains_key(key));
    let Some(role) = role(&from).filter(|_| !own && fields.contains_key("value")) else {
        return Value::Object(fields);
    };
    fields.shift_remove("from");
    let value = fields.shift_remove("value").unwrap_or_default();
    let (key, value) =
        if from == "function_call" { ("tool_calls", calls(value)) } else { ("content", value) };
    let mut made = Map::new();
    made.extend([("role".to_owned(), json!(role)), (key.to_owned(), value)]);
    made.extend(fields);
    Value::Object(made)
}

/// Calls as a list, of one or several, or of the JSON text of either.
fn calls(value: Value) -> Value {
    let parsed = value.as_str().and_then(|text| trusted::parse(text.as_bytes()).ok());
    match parsed.unwrap_or(value) {
        Value::Array(calls) => Value::Array(calls),
        call => json!([call]),
    }
}

/// The role of who speaks in a conversation of `ShareGPT`, or of `LLaMA-Factory`, which tells calls of tools from answers.
fn role(from: &str) -> Option<&'static str> {
    Some(match from {
        "system" => "system",
        "human" | "user" => "user",
        "gpt" | "chatgpt" | "bing" | "bard" | "model" | "assistant" | "function_call" => "assistant",
        "tool" | "function" | "observation" | "function_response" => "tool",
        _ => return None,
    })
}

/// A tool as `{"type": "function", "function": {"name", "parameters", ...}}`, made of a flat one, or of the JSON text of
/// either; what is neither stays as it is.
pub(super) fn tool(tool: Value) -> Value {
    let parsed = tool.as_str().and_then(|text| trusted::parse(text.as_bytes()).ok()).filter(Value::is_object);
    let tool = parsed.unwrap_or(tool);
    let flat = tool.get("function").is_none() && tool.get("name").is_some_and(Value::is_string);
    if flat && tool.get("parameters").is_some() {
        json!({"type": "function", "function": tool})
    } else {
        tool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_calls_and_texts_of_calls_take_the_form_of_chat_templates() {
        let wanted = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let flat = json!({"name": "f", "arguments": "{}", "id": "c"});
        for form in [flat.clone(), wanted.clone(), json!(flat.to_string()), json!(wanted.to_string())] {
            assert_eq!(call(form).unwrap().to_string(), wanted.to_string());
        }
    }

    #[test]
    fn nothing_of_a_call_is_lost() {
        let made = call(json!({"name": "f", "arguments": {"a": 1}, "index": 3})).unwrap();
        assert_eq!(
            made,
            json!({"type": "function", "function": {"name": "f", "arguments": {"a": 1}}, "index": 3})
        );
        let bare = call(json!({"name": "f"})).unwrap();
        assert_eq!(bare, json!({"type": "function", "function": {"name": "f", "arguments": "{}"}}));
    }

    #[test]
    fn what_is_no_call_is_none() {
        for text in ["", "look", "{", "[1]", "\"f\"", "5", "null"] {
            assert_eq!(call(json!(text)), None, "{text}");
        }
        assert_eq!(call(json!(5)), None);
        assert_eq!(call(json!({"name": 5})), Some(json!({"name": 5})));
    }

    #[test]
    fn messages_of_share_gpt_take_the_form_and_nothing_of_them_is_lost() {
        for (from, role) in
            [("human", "user"), ("GPT", "assistant"), ("system", "system"), ("function", "tool")]
        {
            let made = message(json!({"from": from, "value": "x", "loss": null}));
            assert_eq!(made.to_string(), json!({"role": role, "content": "x", "loss": null}).to_string());
        }
        let called = message(json!({"from": "function_call", "value": r#"{"name":"f","arguments":{}}"#}));
        assert_eq!(called, json!({"role": "assistant", "tool_calls": [{"name": "f", "arguments": {}}]}));
        let several = message(json!({"from": "function_call", "value": r#"[{"name":"f"},{"name":"g"}]"#}));
        assert_eq!(several, json!({"role": "assistant", "tool_calls": [{"name": "f"}, {"name": "g"}]}));
        let others = [
            json!({"role": "user", "content": "x", "from": "gpt", "value": "y"}),
            json!({"from": "gpt", "value": "y", "content": ""}),
            json!({"from": "gpt", "value": "y", "tool_calls": []}),
            json!({"from": "narrator", "value": "x"}),
            json!({"from": "gpt"}),
            json!({"from": 5, "value": "x"}),
            json!("x"),
        ];
        for other in others {
            assert_eq!(message(other.clone()), other);
        }
    }

    #[test]
    fn the_system_beside_a_conversation_of_share_gpt_begins_it_and_stays_beside_any_other() {
        let (human, system) =
            (json!({"from": "human", "value": "x"}), json!({"from": "system", "value": "s"}));
        let mut beside = json!("s");
        let made = conversation(vec![human.clone()], Some(&mut beside));
        assert_eq!(made[0], json!({"role": "system", "content": "s"}));
        assert_eq!((made.len(), &made[1]["role"], beside), (2, &json!("user"), Value::Null));
        let own = json!({"role": "user", "from": "alice", "content": "x"});
        let strange = json!({"from": "narrator", "value": "x"});
        for (beside, first) in
            [("t", Some(system)), ("", Some(human)), ("s", Some(own)), ("s", Some(strange)), ("s", None)]
        {
            let mut system = json!(beside);
            let messages: Vec<Value> = first.into_iter().collect();
            assert_eq!(conversation(messages.clone(), Some(&mut system)).len(), messages.len());
            assert_eq!(system, beside, "{messages:?}");
        }
        let mut facts = json!({"os": "linux"});
        assert_eq!(conversation(vec![json!({"from": "gpt", "value": "x"})], Some(&mut facts)).len(), 1);
        assert_eq!(facts, json!({"os": "linux"}));
    }

    #[test]
    fn flat_tools_take_the_form_too() {
        let flat = json!({"name": "f", "description": "d", "parameters": {}});
        let wanted = json!({"type": "function", "function": flat});
        assert_eq!(tool(json!(flat.to_string())), wanted);
        assert_eq!(tool(flat), wanted);
        for other in [wanted, json!({"name": "f"}), json!("f"), json!({"input_schema": {}})] {
            assert_eq!(tool(other.clone()), other);
        }
    }
}
