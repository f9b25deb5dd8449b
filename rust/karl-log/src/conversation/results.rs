//! Results of tool calls: which call of a turn each of them answers, and by which id.

use std::collections::HashSet;

use serde_json::Value;

/// Keys of the id of the call that a result answers: of `OpenAI`'s two interfaces, Anthropic and the AI SDK.
pub const CALL_IDS: [&str; 4] = ["tool_call_id", "call_id", "tool_use_id", "toolCallId"];

/// Calls of one turn by id and name, while results are given to them.
struct Calls<'a> {
    keys: Vec<(&'a str, &'a str)>,
    free: Vec<bool>,
}

impl<'a> Calls<'a> {
    fn of(message: &'a Value) -> Self {
        let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        let name = |call: &'a Value| call.get("function").map_or("", |function| text(function, "name"));
        let keys: Vec<_> = calls.map(|call| (text(call, "id"), name(call))).collect();
        Self { free: vec![true; keys.len()], keys }
    }

    /// Take the first free call that fits.
    fn take(&mut self, fits: impl Fn(&str, &str) -> bool) -> Option<usize> {
        let mut calls = self.keys.iter().zip(&self.free);
        let at = calls.position(|((id, name), free)| *free && fits(id, name))?;
        self.free[at] = false;
        Some(at)
    }
}

/// Return the number of the call that each result of a turn answers: the one whose id it has, else the first free
/// one with its name. Results without a name get what the others leave, in order. `None` for a result that names
/// no call of this turn.
#[must_use]
pub fn answered(turn: &Value, results: &[&Value]) -> Vec<Option<usize>> {
    let mut calls = Calls::of(turn);
    let mut found = vec![None; results.len()];
    for (at, result) in results.iter().enumerate() {
        let ids = ids(result);
        found[at] = calls.take(|id, _| !id.is_empty() && ids.contains(&id));
    }
    for named in [true, false] {
        for (at, result) in results.iter().enumerate() {
            let tool = tool_name(result);
            if found[at].is_none() && !names_call(result) && tool.is_empty() != named {
                found[at] = calls.take(|_, name| !named || name == tool);
            }
        }
    }
    found
}

/// Return whether a result has the id of its call under a key for it.
pub(crate) fn names_call(result: &Value) -> bool {
    CALL_IDS.iter().any(|key| !text(result, key).is_empty())
}

/// Return the name of the tool that a result is of, under Ollama's key too.
#[must_use]
pub fn tool_name(result: &Value) -> &str {
    let name = text(result, "name");
    if name.is_empty() { text(result, "tool_name") } else { name }
}

/// Return the ids that a result has, of its call or of its own: tau2 has the id of the call as that of the message.
fn ids(result: &Value) -> Vec<&str> {
    if let Some(id) = CALL_IDS.iter().map(|key| text(result, key)).find(|id| !id.is_empty()) {
        return vec![id];
    }
    let several = result.get("tool_call_ids").and_then(Value::as_array).into_iter().flatten();
    several.filter_map(Value::as_str).chain(Some(text(result, "id"))).filter(|id| !id.is_empty()).collect()
}

/// Ids for the calls of a conversation that have none.
#[derive(Debug, Default)]
pub struct FreeIds {
    /// Ids that calls have.
    given: HashSet<String>,
    /// Number of the call.
    calls: usize,
}

impl FreeIds {
    /// Collect the ids of all calls of a conversation.
    #[must_use]
    pub fn of<'v>(messages: impl Iterator<Item = &'v Value>) -> Self {
        let calls = messages.filter_map(|message| message.get("tool_calls")?.as_array()).flatten();
        let ids = calls.map(|call| text(call, "id")).filter(|id| !id.is_empty()).map(str::to_owned);
        Self { given: ids.collect(), calls: 0 }
    }

    /// Return the id of the next call: its own, or `call_` and its number, or the next number that no call has.
    pub fn id_of(&mut self, call: &Value) -> String {
        self.calls += 1;
        let own = text(call, "id");
        if !own.is_empty() {
            return own.to_owned();
        }
        loop {
            let id = format!("call_{}", self.calls);
            if !self.given.contains(&id) {
                return id;
            }
            self.calls += 1;
        }
    }
}

/// Write the id of its call to each result without one, and put results without ids in the order of their calls:
/// some chat templates read ids, others the order.
pub(super) fn put_to_calls(messages: &mut [Value]) {
    let mut start = 0;
    while start < messages.len() {
        let (turn, rest) = messages[start..].split_at_mut(1);
        let count = rest.iter().take_while(|message| message["role"] == "tool").count();
        put_to_turn(&turn[0], &mut rest[..count]);
        start += 1 + count;
    }
}

fn put_to_turn(turn: &Value, results: &mut [Value]) {
    if results.iter().all(|result| !text(result, "tool_call_id").is_empty()) {
        return;
    }
    let found = answered(turn, &results.iter().collect::<Vec<_>>());
    let calls = turn.get("tool_calls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (result, call) in results.iter_mut().zip(&found) {
        let id =
            call.and_then(|call| calls.get(call)).map(|call| text(call, "id")).filter(|id| !id.is_empty());
        if let (Some(id), Some(result)) = (id, result.as_object_mut()) {
            result.insert("tool_call_id".to_owned(), Value::from(id));
        }
    }
    if let Some(mut order) = found.into_iter().collect::<Option<Vec<usize>>>() {
        for at in 0..order.len() {
            let least = (at..order.len()).min_by_key(|&at| order[at]).unwrap_or(at);
            results[at..=least].rotate_right(1);
            order[at..=least].rotate_right(1);
        }
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
