//! Rows in the forms that trainers and services read, made of an example.
//!
//! ```text
//! prompt-completion  prompt, completion        lists of messages          TRL
//! preference         prompt, chosen, rejected  lists of messages          TRL, karl-fast train --recipe dpo
//! kto                prompt, completion, label                            TRL, karl-fast train --recipe kto
//! sharegpt           conversations             texts, calls as Hermes     Axolotl, Unsloth, LLaMA-Factory
//! alpaca             instruction, output, ..   texts, no tools            LLaMA-Factory, Axolotl
//! openai             messages, tools           arguments are JSON text    fine-tuning services
//! atif               steps                     one trajectory a line      Harbor
//! verl, prime-rl     messages, tools           of a Parquet file          verl, prime-rl
//! ```
//!
//! A form either holds the texts, calls, results and tools of an example, or the row has a flaw. The reasoning that
//! `openai` has no key for is left out and counted. Of the other keys of a message, the first three forms have all,
//! `openai`, `verl` and `prime-rl` those that are listed below, and `sharegpt`, `alpaca` and `atif` none.

use serde_json::{Map, Value, json};

use super::message_text::{arguments_text, body, call_in_brackets, is_unlearned, text, thoughts};
use super::shape::Shape;
use crate::conversation::content_hash::is_same_message;
use crate::conversation::results::{FreeIds, answered};
use crate::conversation::{Example, Flaw};

/// Conversation of a row.
struct Chat {
    messages: Vec<Value>,
    tools: Option<Value>,
}

/// Row in the form of a trainer.
pub(super) struct FormRow {
    /// Fields.
    pub(super) fields: Map<String, Value>,
    /// Number of messages whose reasoning the form has no key for.
    pub(super) reasoning_left_out: u64,
}

/// What a row is made of.
pub(super) struct RowParts {
    /// Example.
    pub(super) example: Example,
    /// Example of a lower reward in the same group, for pairs.
    pub(super) rejected: Option<Example>,
    /// True for an answer that was wanted, for answers with a label.
    pub(super) label: Option<bool>,
}

/// Return the row in one of the forms.
///
/// # Errors
/// The [`Flaw`] of an example that the form cannot hold.
pub(super) fn form_row(parts: RowParts, shape: Shape) -> Result<FormRow, Flaw> {
    let mut chat = chat_of(parts.example)?;
    let mut reasoning_left_out = 0;
    let fields = match shape {
        Shape::PromptCompletion => prompt_completion(chat)?,
        Shape::Preference => preference(chat, chat_of(parts.rejected.ok_or(Flaw::NoRejected)?)?)?,
        Shape::Kto => {
            let label = parts.label.ok_or(Flaw::NoLabel)?;
            let mut fields = prompt_completion(chat)?;
            fields.insert("label".to_owned(), json!(label));
            fields
        }
        Shape::OpenAi => {
            reasoning_left_out =
                chat.messages.iter().filter(|message| thoughts(message).is_some()).count() as u64;
            // What is left of a message that only thinks.
            if chat.messages.iter().any(is_empty_answer) {
                return Err(Flaw::EmptyMessage);
            }
            name_calls(&mut chat.messages);
            with_tools([("messages", chat.messages.iter().map(openai_message).collect())], chat.tools)
        }
        Shape::Atif => atif(chat)?,
        _ if chat.messages.iter().any(is_unlearned) => return Err(Flaw::UnlearnedTurn),
        Shape::ShareGpt => sharegpt(&chat),
        Shape::Alpaca => alpaca(&chat)?,
        Shape::Verl => {
            let messages = chat.messages.iter().map(table_message).collect();
            with_tools([("messages", messages)], chat.tools)
        }
        Shape::PrimeRl => {
            let messages = chat.messages.iter().map(table_message).collect();
            with_tools([("messages", messages)], chat.tools.map(|tools| Value::String(tools.to_string())))
        }
        Shape::Chat | Shape::PromptCompletionText | Shape::Text | Shape::Raw => return Err(Flaw::OtherShape),
    };
    Ok(FormRow { fields, reasoning_left_out })
}

/// Return the conversation of an example.
fn chat_of(example: Example) -> Result<Chat, Flaw> {
    match example {
        Example::Chat { messages, tools } => Ok(Chat { messages, tools }),
        Example::Completion { prompt, completion } => {
            let messages = vec![
                json!({"role": "user", "content": prompt}),
                json!({"role": "assistant", "content": completion}),
            ];
            Ok(Chat { messages, tools: None })
        }
        Example::Text(_) => Err(Flaw::OtherShape),
    }
}

/// Return lists of messages under their keys, and the tools if there are some.
fn with_tools<const N: usize>(lists: [(&str, Vec<Value>); N], tools: Option<Value>) -> Map<String, Value> {
    let lists = lists.into_iter().map(|(key, messages)| (key.to_owned(), Value::Array(messages)));
    lists.chain(tools.map(|tools| ("tools".to_owned(), tools))).collect()
}

fn prompt_completion(mut chat: Chat) -> Result<Map<String, Value>, Flaw> {
    let completion = chat.messages.pop().into_iter().collect();
    if chat.messages.is_empty() {
        return Err(Flaw::NoPrompt);
    }
    Ok(with_tools([("prompt", chat.messages), ("completion", completion)], chat.tools))
}

/// Return a pair: what both conversations begin with is the prompt, and then each has an answer of its own.
fn preference(chosen: Chat, rejected: Chat) -> Result<Map<String, Value>, Flaw> {
    if chosen.tools != rejected.tools {
        return Err(Flaw::OtherPrompt);
    }
    let both = chosen.messages.iter().zip(&rejected.messages);
    let shared = both.take_while(|(left, right)| is_same_message(left, right)).count();
    let next = [chosen.messages.get(shared), rejected.messages.get(shared)];
    if next.iter().any(Option::is_none) {
        return Err(Flaw::SameAnswer);
    }
    let answers = next.iter().flatten().all(|message| message["role"] == "assistant");
    if shared == 0 || !answers {
        return Err(Flaw::OtherPrompt);
    }
    let (mut prompt, mut other) = (chosen.messages, rejected.messages);
    let (chosen_answer, rejected_answer) = (prompt.split_off(shared), other.split_off(shared));
    if chosen_answer.iter().chain(&rejected_answer).any(is_unlearned) {
        return Err(Flaw::UnlearnedTurn);
    }
    let lists = [("prompt", prompt), ("chosen", chosen_answer), ("rejected", rejected_answer)];
    Ok(with_tools(lists, chosen.tools))
}

/// Return a conversation as texts. Calls and results are in the tags that Hermes introduced and Qwen's templates
/// write, and the results of parallel calls are one entry, so that one answer of the model stands between two entries of
/// tools.
fn sharegpt(chat: &Chat) -> Map<String, Value> {
    let mut entries: Vec<(&str, String)> = Vec::new();
    for message in &chat.messages {
        let (from, value) = match text(message, "role") {
            "assistant" => ("gpt", body(message, call_in_tags)),
            "tool" => ("tool", format!("<tool_response>\n{}\n</tool_response>", text(message, "content"))),
            "system" => ("system", text(message, "content").to_owned()),
            _ => ("human", text(message, "content").to_owned()),
        };
        match entries.last_mut() {
            Some(last) if from == "tool" && last.0 == "tool" => last.1 = format!("{}\n{value}", last.1),
            _ => entries.push((from, value)),
        }
    }
    let entries = entries.into_iter().map(|(from, value)| json!({"from": from, "value": value})).collect();
    let tools = chat.tools.as_ref().map(|tools| Value::String(tools.to_string()));
    with_tools([("conversations", entries)], tools)
}

fn call_in_tags(call: &Value) -> String {
    let function = call.get("function").unwrap_or(call);
    // Not `json!`, which fails for numbers that are not finite.
    let call =
        ["name", "arguments"].map(|key| (key.to_owned(), function.get(key).cloned().unwrap_or_default()));
    format!("<tool_call>\n{}\n</tool_call>", Value::Object(Map::from_iter(call)))
}

/// Return a conversation of texts, whose earlier turns are its history.
fn alpaca(chat: &Chat) -> Result<Map<String, Value>, Flaw> {
    let is_tool = |message: &Value| message["role"] == "tool" || has_calls(message);
    if chat.tools.is_some() || chat.messages.iter().any(is_tool) {
        return Err(Flaw::HasTools);
    }
    let (system, turns) = match chat.messages.split_first() {
        Some((first, turns)) if first["role"] == "system" => (Some(text(first, "content")), turns),
        _ => (None, &chat.messages[..]),
    };
    let mut pairs: Vec<[String; 2]> = Vec::new();
    for pair in turns.chunks(2) {
        let [user, model] = pair else { return Err(Flaw::OtherShape) };
        if user["role"] != "user" || model["role"] != "assistant" {
            return Err(Flaw::OtherShape);
        }
        pairs.push([text(user, "content").to_owned(), body(model, call_in_brackets)]);
    }
    let [instruction, output] = pairs.pop().ok_or(Flaw::NoPrompt)?;
    let mut fields = Map::new();
    fields.insert("instruction".to_owned(), json!(instruction));
    fields.insert("input".to_owned(), json!(""));
    fields.insert("output".to_owned(), json!(output));
    fields.insert("system".to_owned(), json!(system.unwrap_or_default()));
    fields.insert("history".to_owned(), json!(pairs));
    Ok(fields)
}

/// Keys that a message of a fine-tuning service may have.
const OPENAI_KEYS: [&str; 6] = ["role", "content", "name", "tool_calls", "tool_call_id", "weight"];

/// Return whether a message of the model has neither content nor calls.
fn is_empty_answer(message: &Value) -> bool {
    is_model(message) && text(message, "content").trim().is_empty() && !has_calls(message)
}

fn has_calls(message: &Value) -> bool {
    message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty())
}

fn openai_message(message: &Value) -> Value {
    picked(message, &OPENAI_KEYS)
}

/// Keys of a message in a table: the same for every row, so that no row gets another one's.
const TABLE_KEYS: [&str; 6] = ["role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"];

fn table_message(message: &Value) -> Value {
    let mut row = picked(message, &TABLE_KEYS);
    if let (Some(thought), Some(fields)) = (thoughts(message), row.as_object_mut()) {
        fields.insert("reasoning_content".to_owned(), Value::String(thought));
    }
    row
}

/// Return a message with some of its keys, and with the arguments of its calls as JSON text.
fn picked(message: &Value, keys: &[&str]) -> Value {
    let mut fields = Map::new();
    for key in keys {
        match message.get(*key) {
            None | Some(Value::Null) => {}
            Some(Value::Array(calls)) if *key == "tool_calls" && calls.is_empty() => {}
            Some(Value::Array(calls)) if *key == "tool_calls" => {
                fields.insert((*key).to_owned(), Value::Array(calls.iter().map(text_call).collect()));
            }
            Some(value) if value.is_string() || *key == "weight" => {
                fields.insert((*key).to_owned(), value.clone());
            }
            Some(_) => {}
        }
    }
    if fields.contains_key("tool_calls") {
        fields.entry("content").or_insert(Value::Null);
    }
    Value::Object(fields)
}

/// Return a call whose arguments are JSON text.
fn text_call(call: &Value) -> Value {
    let function = call.get("function").unwrap_or(call);
    let function = json!({"name": text(function, "name"), "arguments": arguments_text(function)});
    let mut fields = Map::new();
    fields.extend(call.get("id").filter(|id| id.is_string()).map(|id| ("id".to_owned(), id.clone())));
    fields.insert("type".to_owned(), json!("function"));
    fields.insert("function".to_owned(), function);
    Value::Object(fields)
}

/// Give calls without an id one that no other call of the conversation has, and write to each result the id of the call
/// that it answers.
fn name_calls(messages: &mut [Value]) {
    let mut free_ids = FreeIds::of(messages.iter());
    let mut rest = messages;
    while let Some(start) = rest.iter().position(is_model) {
        let (turn, later) = rest[start..].split_at_mut(1);
        let (own, next) = later.split_at_mut(later.iter().position(is_model).unwrap_or(later.len()));
        name_turn(&mut turn[0], own.iter_mut().filter(|message| message["role"] == "tool"), &mut free_ids);
        rest = next;
    }
}

fn is_model(message: &Value) -> bool {
    message["role"] == "assistant"
}

fn name_turn<'v>(turn: &mut Value, results: impl Iterator<Item = &'v mut Value>, free_ids: &mut FreeIds) {
    let mut results: Vec<&mut Value> = results.collect();
    // The calls are known by the ids and names that the log has.
    let answers = answered(turn, &results.iter().map(|result| &**result).collect::<Vec<_>>());
    let mut ids = Vec::new();
    for call in turn.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        let id = json!(free_ids.id_of(call));
        call["id"] = id.clone();
        ids.push(id);
    }
    for (result, call) in results.iter_mut().zip(answers) {
        if let Some(id) = call.and_then(|call| ids.get(call)) {
            result["tool_call_id"] = id.clone();
        }
    }
}

/// Version of the form of trajectories that is written.
const ATIF: &str = "ATIF-v1.7";

/// Return a trajectory: each message of the model is a step, with its calls and their results.
fn atif(mut chat: Chat) -> Result<Map<String, Value>, Flaw> {
    name_calls(&mut chat.messages);
    let mut steps: Vec<Value> = Vec::new();
    for message in &chat.messages {
        match text(message, "role") {
            "tool" => {
                let step =
                    steps.last_mut().filter(|step| step["source"] == "agent").ok_or(Flaw::BadMessage)?;
                let mut result = Map::new();
                let call = message.get("tool_call_id").filter(|id| id.is_string());
                result.extend(call.map(|id| ("source_call_id".to_owned(), id.clone())));
                result.insert("content".to_owned(), json!(text(message, "content")));
                match step.pointer_mut("/observation/results").and_then(Value::as_array_mut) {
                    Some(results) => results.push(Value::Object(result)),
                    None => step["observation"] = json!({"results": [result]}),
                }
            }
            role => steps.push(atif_step(steps.len() + 1, role, message)),
        }
    }
    let mut agent =
        Map::from_iter([("name".to_owned(), json!("unknown")), ("version".to_owned(), json!("unknown"))]);
    agent.extend(chat.tools.map(|tools| ("tool_definitions".to_owned(), tools)));
    let mut fields = Map::new();
    fields.insert("schema_version".to_owned(), json!(ATIF));
    fields.insert("agent".to_owned(), Value::Object(agent));
    fields.insert("steps".to_owned(), Value::Array(steps));
    Ok(fields)
}

fn atif_step(number: usize, role: &str, message: &Value) -> Value {
    let source = match role {
        "assistant" => "agent",
        "system" => "system",
        _ => "user",
    };
    let mut step = Map::new();
    step.insert("step_id".to_owned(), json!(number));
    step.insert("source".to_owned(), json!(source));
    step.insert("message".to_owned(), json!(text(message, "content")));
    step.extend(thoughts(message).map(|thought| ("reasoning_content".to_owned(), json!(thought))));
    // The form has no other word for a step that is not learned.
    step.extend(is_unlearned(message).then(|| ("is_copied_context".to_owned(), json!(true))));
    let calls = message.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty());
    if let Some(calls) = calls {
        step.insert("tool_calls".to_owned(), Value::Array(calls.iter().map(atif_call).collect()));
    }
    Value::Object(step)
}

fn atif_call(call: &Value) -> Value {
    let function = call.get("function").unwrap_or(call);
    let mut fields = Map::new();
    fields.insert("tool_call_id".to_owned(), call.get("id").cloned().unwrap_or_default());
    fields.insert("function_name".to_owned(), json!(text(function, "name")));
    fields.insert("arguments".to_owned(), function.get("arguments").cloned().unwrap_or_else(|| json!({})));
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Example {
        let call = |id: Value| {
            let mut call =
                json!({"type": "function", "function": {"name": "run", "arguments": {"cmd": "ls"}}});
            if !id.is_null() {
                call["id"] = id;
            }
            call
        };
        Example::Chat {
            messages: vec![
                json!({"role": "system", "content": "s"}),
                json!({"role": "user", "content": "q"}),
                json!({"role": "assistant", "content": "I look.", "reasoning_content": "hm",
                       "tool_calls": [call(json!("a")), call(Value::Null)]}),
                json!({"role": "tool", "tool_call_id": "a", "content": "one"}),
                json!({"role": "tool", "content": "two"}),
                json!({"role": "assistant", "content": "done"}),
            ],
            tools: Some(json!([{"type": "function", "function": {"name": "run"}}])),
        }
    }

    fn row_of(example: Example, shape: Shape) -> Result<Value, Flaw> {
        let parts = RowParts { example, rejected: None, label: Some(true) };
        form_row(parts, shape).map(|row| Value::Object(row.fields))
    }

    fn words(pairs: &[(&str, &str)]) -> Example {
        let message = |(role, content): &(&str, &str)| json!({"role": role, "content": content});
        Example::Chat { messages: pairs.iter().map(message).collect(), tools: None }
    }

    #[test]
    fn a_prompt_and_its_completion_are_lists_of_messages() {
        let row = row_of(session(), Shape::PromptCompletion).unwrap();
        assert_eq!(row["prompt"].as_array().map(Vec::len), Some(5));
        assert_eq!(row["completion"], json!([{"role": "assistant", "content": "done"}]));
        assert_eq!(row["tools"][0]["function"]["name"], "run");
        let text = Example::Completion { prompt: "p".to_owned(), completion: "c".to_owned() };
        let row = row_of(text, Shape::Kto).unwrap();
        assert_eq!(row["prompt"], json!([{"role": "user", "content": "p"}]));
        assert_eq!(row["label"], true);
        assert_eq!(row_of(words(&[("assistant", "a")]), Shape::PromptCompletion), Err(Flaw::NoPrompt));
        assert_eq!(row_of(Example::Text("t".to_owned()), Shape::OpenAi), Err(Flaw::OtherShape));
    }

    #[test]
    fn a_pair_begins_alike_and_goes_on_with_two_answers() {
        let pair = |chosen: Example, rejected: Example| {
            form_row(RowParts { example: chosen, rejected: Some(rejected), label: None }, Shape::Preference)
                .map(|row| Value::Object(row.fields))
        };
        let one = || words(&[("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b")]);
        let row = pair(one(), words(&[("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "c")]))
            .unwrap();
        assert_eq!(row["prompt"].as_array().map(Vec::len), Some(3));
        assert_eq!(
            (&row["chosen"][0]["content"], &row["rejected"][0]["content"]),
            (&json!("b"), &json!("c"))
        );
        assert_eq!(pair(one(), one()), Err(Flaw::SameAnswer));
        assert_eq!(pair(one(), words(&[("user", "x"), ("assistant", "c")])), Err(Flaw::OtherPrompt));
        assert_eq!(
            pair(one(), words(&[("user", "q"), ("user", "c"), ("assistant", "d")])),
            Err(Flaw::OtherPrompt)
        );
        assert_eq!(pair(one(), words(&[("user", "q"), ("assistant", "a")])), Err(Flaw::SameAnswer));
    }

    #[test]
    fn calls_are_in_tags_and_parallel_results_are_one_entry() {
        let row = row_of(session(), Shape::ShareGpt).unwrap();
        let from: Vec<&str> =
            row["conversations"].as_array().unwrap().iter().map(|entry| text(entry, "from")).collect();
        assert_eq!(from, ["system", "human", "gpt", "tool", "gpt"]);
        let value = text(&row["conversations"][2], "value");
        let call = "<tool_call>\n{\"name\":\"run\",\"arguments\":{\"cmd\":\"ls\"}}\n</tool_call>";
        assert_eq!(value, format!("<think>\nhm\n</think>\nI look.\n{call}\n{call}"));
        let results = "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>";
        assert_eq!(row["conversations"][3]["value"], results);
        assert!(row["tools"].is_string());
    }

    #[test]
    fn alpaca_has_earlier_turns_in_its_history_and_no_tools() {
        let turns = [("system", "s"), ("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b")];
        let wanted =
            json!({"instruction": "r", "input": "", "output": "b", "system": "s", "history": [["q", "a"]]});
        assert_eq!(row_of(words(&turns), Shape::Alpaca), Ok(wanted));
        assert_eq!(row_of(session(), Shape::Alpaca), Err(Flaw::HasTools));
        let two = [("user", "q"), ("user", "r"), ("assistant", "b")];
        assert_eq!(row_of(words(&two), Shape::Alpaca), Err(Flaw::OtherShape));
    }

    #[test]
    fn services_get_arguments_as_text_and_an_id_for_every_call() {
        let parts = RowParts { example: session(), rejected: None, label: None };
        let row = form_row(parts, Shape::OpenAi).unwrap();
        assert_eq!(row.reasoning_left_out, 1);
        let messages = &row.fields["messages"];
        assert_eq!(messages[2]["tool_calls"][0]["function"]["arguments"], "{\"cmd\":\"ls\"}");
        assert_eq!(messages[2]["tool_calls"][1]["id"], "call_2");
        assert_eq!(messages[4]["tool_call_id"], "call_2");
        assert!(messages[2].get("reasoning_content").is_none());
        let row = row_of(session(), Shape::PrimeRl).unwrap();
        assert_eq!(row["messages"][2]["reasoning_content"], "hm");
        assert!(row["tools"].is_string());
    }

    /// Return a conversation with calls of the named tools, each with its id or none, and results of named tools.
    fn called(calls: &[(&str, Option<&str>)], results: &[(&str, &str)]) -> Example {
        let call = |&(name, id): &(&str, Option<&str>)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": {}}});
        let calls: Vec<Value> = calls.iter().map(call).collect();
        let turn = json!({"role": "assistant", "content": "", "tool_calls": calls});
        let result = |(name, text): &(&str, &str)| json!({"role": "tool", "name": name, "content": text});
        let end = json!({"role": "assistant", "content": "done"});
        let messages = [json!({"role": "user", "content": "q"}), turn].into_iter();
        Example::Chat {
            messages: messages.chain(results.iter().map(result)).chain([end]).collect(),
            tools: None,
        }
    }

    #[test]
    fn a_result_without_an_id_goes_to_the_call_of_its_tool() {
        let row = row_of(called(&[("f", None), ("g", None)], &[("g", "r")]), Shape::OpenAi).unwrap();
        assert_eq!(row["messages"][2]["tool_call_id"], row["messages"][1]["tool_calls"][1]["id"]);
        let row =
            row_of(called(&[("f", None), ("g", None)], &[("g", "r"), ("f", "s")]), Shape::Atif).unwrap();
        let wanted = json!([{"source_call_id": "call_2", "content": "r"}, {"source_call_id": "call_1", "content": "s"}]);
        assert_eq!(row["steps"][1]["observation"]["results"], wanted);
        let row = row_of(called(&[("f", None)], &[("h", "r")]), Shape::OpenAi).unwrap();
        assert!(row["messages"][2].get("tool_call_id").is_none(), "a result of another tool answers no call");
    }

    #[test]
    fn no_two_calls_have_one_id() {
        let calls = [("f", Some("call_2")), ("f", None), ("f", None), ("f", Some("call_5")), ("f", None)];
        let row = row_of(called(&calls, &[]), Shape::OpenAi).unwrap();
        let calls = row["messages"][1]["tool_calls"].as_array().unwrap();
        let ids: Vec<&str> = calls.iter().map(|call| text(call, "id")).collect();
        assert_eq!(ids, ["call_2", "call_3", "call_4", "call_5", "call_6"]);
    }

    #[test]
    fn a_message_of_reasoning_alone_is_not_left_as_an_empty_one() {
        let thinking = || Example::Chat {
            messages: vec![
                json!({"role": "user", "content": "q"}),
                json!({"role": "assistant", "content": "", "reasoning_content": "hm"}),
            ],
            tools: None,
        };
        assert_eq!(row_of(thinking(), Shape::OpenAi), Err(Flaw::EmptyMessage));
        assert_eq!(row_of(thinking(), Shape::Verl).unwrap()["messages"][1]["reasoning_content"], "hm");
        assert!(row_of(called(&[("f", None)], &[]), Shape::OpenAi).is_ok());
    }

    #[test]
    fn a_trajectory_has_the_results_of_a_step_in_it() {
        let row = row_of(session(), Shape::Atif).unwrap();
        let steps = row["steps"].as_array().unwrap();
        assert_eq!(
            steps.iter().map(|step| text(step, "source")).collect::<Vec<_>>(),
            ["system", "user", "agent", "agent"]
        );
        let wanted = json!([{"source_call_id": "a", "content": "one"}, {"source_call_id": "call_2", "content": "two"}]);
        assert_eq!(steps[2]["observation"]["results"], wanted);
        assert_eq!((&steps[2]["step_id"], &steps[2]["reasoning_content"]), (&json!(3), &json!("hm")));
    }

    #[test]
    fn a_turn_that_is_not_learned_is_marked_or_the_row_is_left_out() {
        let unlearned = || Example::Chat {
            messages: vec![
                json!({"role": "user", "content": "q"}),
                json!({"role": "assistant", "content": "a", "weight": 0}),
                json!({"role": "user", "content": "r"}),
                json!({"role": "assistant", "content": "b"}),
            ],
            tools: None,
        };
        for shape in [Shape::ShareGpt, Shape::Alpaca, Shape::Verl, Shape::PrimeRl] {
            assert_eq!(row_of(unlearned(), shape), Err(Flaw::UnlearnedTurn), "{shape:?}");
        }
        assert_eq!(row_of(unlearned(), Shape::OpenAi).unwrap()["messages"][1]["weight"], 0);
        assert_eq!(row_of(unlearned(), Shape::Atif).unwrap()["steps"][1]["is_copied_context"], true);
    }
}
