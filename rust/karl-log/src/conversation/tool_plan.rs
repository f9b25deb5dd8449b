//! Plan in words from a list of tool calls, for logs without text of the model.

use serde_json::Value;

/// Return one numbered line per call: the tool, and the logged arguments. The result of a call is left out:
/// the model did not know it when it made the call. `None` if the value is not a list of calls.
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
