//! A list of tool calls as a plan in words, for logs that keep no words of the model.

use serde_json::Value;

/// One numbered line a call: the tool, and the arguments that the log kept. Nothing is said of how a call ended: the
/// model did not know that when it made it. None where the value is no list of calls.
pub(crate) fn plan(calls: &Value) -> Option<String> {
    let step = |(at, call): (usize, &Value)| Some(format!("{}. {}", at + 1, step(call)?));
    let steps: Option<Vec<String>> = calls.as_array()?.iter().enumerate().map(step).collect();
    Some(steps?.join("\n"))
}

fn step(call: &Value) -> Option<String> {
    let name = call.get("tool_name").or_else(|| call.get("tool"))?.as_str()?;
    Some(match (call.get("key_params"), call.get("input_preview")) {
        (Some(Value::Object(arguments)), _) if !arguments.is_empty() => {
            let argument = |(key, value): (&String, &Value)| format!("{key}={}", word(value));
            format!("{name}({})", arguments.iter().map(argument).collect::<Vec<_>>().join(", "))
        }
        (_, Some(Value::String(preview))) if !preview.is_empty() => format!("{name}({preview})"),
        _ => name.to_owned(),
    })
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
