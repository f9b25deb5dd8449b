//! Messages, tool calls and tools in the form of chat templates.

use serde_json::{Map, Value, json};

use crate::json::reference_parser;

/// Keys of the arguments of a flat call: of `OpenAI`, `LangChain`, Anthropic and Cohere.
const ARGUMENTS: [&str; 4] = ["arguments", "args", "input", "parameters"];

/// Return a call as `{"id", "type": "function", "function": {"name", "arguments"}}`, made from a flat one, or
/// from the JSON text of either; `None` if it is not a call.
pub(crate) fn call(call: Value) -> Option<Value> {
    let call = match call {
        Value::String(text) => reference_parser::parse(text.as_bytes()).ok()?,
        call => call,
    };
    let Value::Object(mut fields) = call else { return None };
    let name = match fields.get("function") {
        Some(Value::Object(function)) => return is_function(function).then_some(Value::Object(fields)),
        // Inspect has only the name there.
        Some(Value::String(_)) if !fields.contains_key("name") => fields.shift_remove("function"),
        Some(_) => None,
        None => fields.shift_remove("name"),
    };
    let name = name.filter(is_name)?;
    let arguments = ARGUMENTS.iter().find_map(|key| fields.shift_remove(*key)).unwrap_or_else(|| json!("{}"));
    let function = Map::from_iter([("name".to_owned(), name), ("arguments".to_owned(), arguments)]);
    if !is_function(&function) {
        return None;
    }
    let mut made = Map::new();
    made.extend(fields.shift_remove("id").map(|id| ("id".to_owned(), id)));
    made.insert("type".to_owned(), json!("function"));
    made.insert("function".to_owned(), Value::Object(function));
    fields.shift_remove("type");
    made.extend(fields);
    Some(Value::Object(made))
}

/// Return whether a called function has a name, and arguments that are an object or its text.
fn is_function(function: &Map<String, Value>) -> bool {
    let arguments = function.get("arguments");
    let known = matches!(arguments, None | Some(Value::Null | Value::String(_) | Value::Object(_)));
    known && function.get("name").is_some_and(is_name)
}

fn is_name(name: &Value) -> bool {
    name.as_str().is_some_and(|name| !name.is_empty())
}

/// Return a message as `{"role", "content"}`, made from one of `ShareGPT`, `{"from", "value"}`; any other
/// value, or one with an unknown speaker, is returned unchanged.
pub(crate) fn message(message: Value) -> Value {
    let Value::Object(mut fields) = message else { return message };
    let from = fields.get("from").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let own = ["role", "content", "tool_calls"].iter().any(|&key| fields.contains_key(key));
    let calls_tools = from == "function_call";
    let speaker = if calls_tools { Some("assistant") } else { role(&from) };
    let Some(role) = speaker.filter(|_| !own && fields.contains_key("value")) else {
        return Value::Object(fields);
    };
    fields.shift_remove("from");
    let value = fields.shift_remove("value").unwrap_or_default();
    let (key, value) = if calls_tools { ("tool_calls", calls(value)) } else { ("content", value) };
    let mut made = Map::new();
    made.extend([("role".to_owned(), json!(role)), (key.to_owned(), value)]);
    made.extend(fields);
    Value::Object(made)
}

/// Return calls as a list, from one or several, or from the JSON text of either.
fn calls(value: Value) -> Value {
    let parsed = value.as_str().and_then(|text| reference_parser::parse(text.as_bytes()).ok());
    match parsed.unwrap_or(value) {
        Value::Array(calls) => Value::Array(calls),
        call => json!([call]),
    }
}

/// Return the chat template's role of a speaker in lower case: of `OpenAI`, `ShareGPT`, `LLaMA-Factory`,
/// Gemma and Llama.
pub(crate) fn role(speaker: &str) -> Option<&'static str> {
    Some(match speaker {
        "system" | "developer" => "system",
        "human" | "user" => "user",
        "gpt" | "chatgpt" | "bing" | "bard" | "model" | "ai" | "assistant" => "assistant",
        "tool" | "function" | "observation" | "function_response" | "ipython" => "tool",
        _ => return None,
    })
}

/// Return a tool as `{"type": "function", "function": {"name", "parameters", ...}}`, made from a flat one, or
/// from the JSON text of either; any other value is returned unchanged.
pub(crate) fn tool(tool: Value) -> Value {
    let parsed =
        tool.as_str().and_then(|text| reference_parser::parse(text.as_bytes()).ok()).filter(Value::is_object);
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
        for flat in [
            json!({"name": "f", "args": {"a": 1}, "type": "tool_call"}),
            json!({"type": "tool_use", "name": "f", "input": {"a": 1}}),
            json!({"function": "f", "arguments": {"a": 1}, "type": "function"}),
            json!({"name": "f", "parameters": {"a": 1}}),
        ] {
            let wanted = json!({"type": "function", "function": {"name": "f", "arguments": {"a": 1}}});
            assert_eq!(call(flat).unwrap(), wanted);
        }
        let bare = call(json!({"name": "f"})).unwrap();
        assert_eq!(bare, json!({"type": "function", "function": {"name": "f", "arguments": "{}"}}));
    }

    #[test]
    fn what_is_no_call_is_none() {
        for text in ["", "look", "{", "[1]", "\"f\"", "5", "null"] {
            assert_eq!(call(json!(text)), None, "{text}");
        }
        assert_eq!(call(json!(5)), None);
        for other in [
            json!({"name": 5}),
            json!({}),
            json!({"type": "custom", "custom": {"name": "f", "input": "x"}}),
            json!({"function": {"name": "f", "arguments": [1]}}),
            json!({"function": {"arguments": {}}}),
            json!({"functionCall": {"name": "f", "args": {}}}),
        ] {
            assert_eq!(call(other.clone()), None, "{other}");
        }
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
