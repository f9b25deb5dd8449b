//! Messages, tool calls and tools in the form of chat templates.

use serde_json::{Map, Value, json};

use crate::json::reference_parser;

/// Role of the last message of mini-swe-agent, which holds the submission: nobody says it.
pub const EXIT: &str = "exit";

/// Keys of the arguments of a flat call: of `OpenAI`, `LangChain`, Anthropic and Cohere.
const ARGUMENTS: [&str; 4] = ["arguments", "args", "input", "parameters"];

/// Keys of a message's reasoning, which chat templates read.
pub const THOUGHTS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Return whether a value is not empty.
#[must_use]
pub fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// Return whether a message has a value that is not empty under one of some keys. Its own keys are few: comparing them
/// takes less time than a look-up of each of the others.
pub(super) fn has_filled(message: &Map<String, Value>, keys: &[&str]) -> bool {
    message.iter().any(|(key, value)| keys.contains(&key.as_str()) && is_filled(value))
}

/// Return a call as `{"id", "type": "function", "function": {"name", "arguments"}}`, made from a flat one, or
/// from the JSON text of either; `None` if it is not a call.
pub(crate) fn call(call: Value) -> Option<Value> {
    let call = match call {
        Value::String(text) => reference_parser::parse_exact(text.as_bytes()).ok()?,
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

/// Make the arguments of a call in the form of chat templates an object, from the JSON text of one; no
/// arguments are an empty object. Return false, and change nothing, for any other text.
///
/// Templates of today read the keys of arguments (`items`) or write them as JSON (`tojson`): a text fails in
/// the first, and is encoded twice by the second.
pub(super) fn expand_arguments(call: &mut Value) -> bool {
    let Some(function) = call.get_mut("function").and_then(Value::as_object_mut) else { return false };
    let arguments = function.entry("arguments").or_insert(Value::Null);
    let object = match arguments {
        Value::Object(_) => return true,
        Value::Null => Value::Object(Map::new()),
        Value::String(text) if matches!(text.trim(), "" | "null") => Value::Object(Map::new()),
        Value::String(text) => match reference_parser::parse_exact(text.as_bytes()) {
            Ok(object @ Value::Object(_)) => object,
            _ => return false,
        },
        _ => return false,
    };
    *arguments = object;
    true
}

fn is_name(name: &Value) -> bool {
    name.as_str().is_some_and(|name| !name.is_empty())
}

/// Return a message as `{"role", "content"}`, made from one of `ShareGPT`, `{"from", "value"}`; any other
/// value, or one with an unknown speaker, is returned unchanged.
pub(crate) fn message(message: Value) -> Value {
    let Value::Object(mut fields) = message else { return message };
    if let Some(text) = fields.get("parts").and_then(texts).filter(|_| !fields.contains_key("content")) {
        fields.shift_remove("parts");
        fields.insert("content".to_owned(), Value::String(text));
    }
    let from = fields.get("from").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let own = fields.keys().any(|key| ["role", "content", "tool_calls"].contains(&key.as_str()));
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

/// Return the text of Gemini's parts; `None` if one is more than a text.
pub(crate) fn texts(parts: &Value) -> Option<String> {
    let text = |part: &Value| {
        part.as_object().filter(|part| part.len() == 1)?.get("text")?.as_str().map(str::to_owned)
    };
    parts.as_array().filter(|parts| !parts.is_empty())?.iter().map(text).collect()
}

/// Return calls as a list, from one or several, or from the JSON text of either.
fn calls(value: Value) -> Value {
    let parsed = value.as_str().and_then(|text| reference_parser::parse_exact(text.as_bytes()).ok());
    match parsed.unwrap_or(value) {
        Value::Array(calls) => Value::Array(calls),
        call => Value::Array(vec![call]),
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
        "exit" => EXIT,
        _ => return None,
    })
}

/// Keys of the parameters of a tool: of `OpenAI`, Anthropic and MCP.
const PARAMETERS: [&str; 3] = ["parameters", "input_schema", "inputSchema"];

/// Keys that a definition of a tool has, and a record of its use has not.
pub(super) const DEFINITION: [&str; 5] =
    ["function", "parameters", "input_schema", "inputSchema", "functionDeclarations"];

/// Return tools as `{"type": "function", "function": {"name", "parameters", ...}}`, made from flat ones, from
/// names, from Gemini's lists of declarations, or from the JSON text of any; `None` if one is not a tool.
pub(crate) fn tools(tools: Vec<Value>) -> Option<Vec<Value>> {
    let mut all = Vec::with_capacity(tools.len());
    for tool in tools {
        let declared = ["functionDeclarations", "function_declarations"].iter().find_map(|key| tool.get(key));
        match declared {
            Some(Value::Array(declared)) => all.extend(self::tools(declared.clone())?),
            Some(_) => return None,
            None => all.push(self::tool(tool)?),
        }
    }
    Some(all)
}

fn tool(tool: Value) -> Option<Value> {
    let fields = match tool {
        Value::Object(fields) => fields,
        Value::String(name) if is_identifier(&name) => {
            return Some(json!({"type": "function", "function": {"name": name}}));
        }
        Value::String(text) => match reference_parser::parse_exact(text.as_bytes()) {
            Ok(Value::Object(fields)) => fields,
            _ => return None,
        },
        _ => return None,
    };
    match fields.get("function") {
        Some(function) => function.get("name").is_some_and(is_name).then(|| Value::Object(fields)),
        None => flat_tool(fields),
    }
}

/// Return a tool made of the fields of its function. Tools of a provider (`web_search`) have no function.
fn flat_tool(mut fields: Map<String, Value>) -> Option<Value> {
    let kind = fields.shift_remove("type");
    let is_function = kind.is_none_or(|kind| kind.is_null() || kind == "function" || kind == "custom");
    if !is_function || !fields.get("name").is_some_and(is_name) {
        return None;
    }
    let parameters = PARAMETERS.iter().find_map(|key| fields.shift_remove(*key).filter(|one| !one.is_null()));
    fields.extend(parameters.map(|parameters| ("parameters".to_owned(), parameters)));
    // `json!` converts values in it, and fails for numbers that are not finite.
    let tool = [("type".to_owned(), json!("function")), ("function".to_owned(), Value::Object(fields))];
    Some(Value::Object(tool.into_iter().collect()))
}

/// Return whether a text may be the name of a function.
fn is_identifier(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    !name.is_empty() && name.len() <= 128 && name.bytes().all(fits)
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
    fn tools_of_every_producer_take_the_form_or_are_none() {
        let of = |tool: Value| tools(vec![tool]).map(|tools| json!(tools));
        let flat = json!({"name": "f", "description": "d", "parameters": {"type": "object"}});
        let wanted = json!([{"type": "function", "function": flat}]);
        let schema = |key: &str| json!({"name": "f", "description": "d", key: {"type": "object"}});
        for form in [
            flat.clone(),
            json!(flat.to_string()),
            wanted[0].clone(),
            json!({"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}),
            schema("input_schema"),
            schema("inputSchema"),
            json!({"functionDeclarations": [flat]}),
        ] {
            assert_eq!(of(form.clone()), Some(wanted.clone()), "{form}");
        }
        let named = Some(json!([{"type": "function", "function": {"name": "f"}}]));
        assert_eq!((of(json!("f")), of(json!({"name": "f"}))), (named.clone(), named));
        for other in [
            json!("{\"name\": \"f\""),
            json!("look at it"),
            json!({"input_schema": {}}),
            json!({"type": "web_search"}),
            json!({"type": "bash_20250124", "name": "bash"}),
            json!({"type": "function", "function": {}}),
            json!({"function": "f"}),
            json!(5),
            json!([]),
        ] {
            assert_eq!(of(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn arguments_become_an_object_or_stay() {
        let of = |arguments: Value| {
            let mut call = json!({"function": {"name": "f", "arguments": arguments}});
            (expand_arguments(&mut call), call["function"]["arguments"].to_string())
        };
        assert_eq!(of(json!(r#"{"b": 1e5, "a": NaN}"#)), (true, r#"{"b":1e5,"a":NaN}"#.to_owned()));
        for none in [json!(null), json!(""), json!(" "), json!("null"), json!({})] {
            assert_eq!(of(none), (true, "{}".to_owned()));
        }
        for other in ["{\"a\": 1", "look", "[1]", "\"{}\"", "5"] {
            assert_eq!(of(json!(other)), (false, json!(other).to_string()));
        }
    }
}
