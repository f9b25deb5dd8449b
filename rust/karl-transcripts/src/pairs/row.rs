//! Row of a pair: common prompt, chosen and rejected answer.

use karl_log::conversation::{Example, example};
use karl_log::format::preset::TRAJECTORY;
use karl_log::format::{Fields, Overrides};
use karl_log::json::reference_parser;
use serde_json::{Map, Value, json};

use super::request::words;
use super::settings::PairShape;

/// Reason to drop a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drop {
    /// One of them is not a conversation that ends with the model.
    NoConversation,
    /// The user asked for something else on the branch that was kept.
    RequestChanged,
    /// One of them has no answer to the request.
    NoAnswer,
    /// The connection broke inside one of them: the user did not reject what was never said in full.
    CutAnswer,
    /// Both answers are equal, or one is the beginning of the other.
    SameAnswer,
    /// The shape needs one prompt and one answer, and there are more messages.
    NotOneAnswer,
}

impl Drop {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NoConversation => "no_conversation",
            Self::RequestChanged => "request_changed",
            Self::NoAnswer => "no_answer",
            Self::CutAnswer => "cut_answer",
            Self::SameAnswer => "same_answer",
            Self::NotOneAnswer => "not_one_answer",
        }
    }
}

/// Make the line of a pair of trajectories.
pub(super) fn row(
    chosen: &[u8],
    rejected: &[u8],
    reason: &'static str,
    shape: PairShape,
) -> Result<String, Drop> {
    let [kept, mut left] = [read(chosen)?, read(rejected)?];
    level(&kept.messages, &mut left.messages);
    let prompt = prompt(&kept.messages, &left.messages)?;
    let [chosen, rejected] = [kept.answer(prompt)?, left.answer(prompt)?];
    if chosen.starts_with(rejected) || rejected.starts_with(chosen) {
        return Err(Drop::SameAnswer);
    }
    let mut row = match shape {
        PairShape::Chat => chat(&kept.messages[..prompt], chosen, rejected, kept.tools.clone()),
        PairShape::Text => text(&kept.messages[..prompt], chosen, rejected)?,
    };
    row.insert("reason".to_owned(), reason.into());
    row.insert("karl_fast".to_owned(), json!({"chosen_id": kept.id, "rejected_id": left.id}));
    Ok(Value::Object(row).to_string() + "\n")
}

/// Trajectory as trainers read it.
struct Attempt {
    id: Value,
    tools: Option<Value>,
    messages: Vec<Value>,
    /// True for each message inside which the connection broke.
    cut: Vec<bool>,
}

impl Attempt {
    /// Return the answer after the first messages.
    fn answer(&self, prompt: usize) -> Result<&[Value], Drop> {
        let answer = answer(&self.messages[prompt..])?;
        let is_cut = self.cut[prompt..].iter().take(answer.len()).any(|&cut| cut);
        if is_cut { Err(Drop::CutAnswer) } else { Ok(answer) }
    }
}

/// Key of a message inside which the connection broke.
const CUT: &str = "cut";

fn read(record: &[u8]) -> Result<Attempt, Drop> {
    let mut record = reference_parser::parse_rollout(record).map_err(|_| Drop::NoConversation)?;
    let id = record["id"].clone();
    // A message that is not to be learned may be compared.
    for message in record["messages"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if message.contains_key(CUT) {
            message.remove("weight");
        }
    }
    let fields = Fields::new(&TRAJECTORY, &Overrides::default(), None).map_err(|_| Drop::NoConversation)?;
    match example(record, &fields).map_err(|_| Drop::NoConversation)?.example {
        Example::Chat { mut messages, tools } => {
            let cut = messages.iter().map(|message| message[CUT] == true).collect();
            messages.iter_mut().filter_map(Value::as_object_mut).for_each(keep_learned);
            Ok(Attempt { id, tools, messages, cut })
        }
        _ => Err(Drop::NoConversation),
    }
}

/// Keys of a message that chat templates read. Its time and success differ between equal messages.
const KEYS: [&str; 6] = ["role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"];

fn keep_learned(message: &mut Map<String, Value>) {
    message.retain(|key, _| KEYS.contains(&key.as_str()));
}

/// Give two requests that differ in spaces or case the text of the first.
fn level(kept: &[Value], left: &mut [Value]) {
    let is_user = |message: &&Value| message["role"] == "user";
    let first = kept.iter().find(is_user).map(|message| &message["content"]);
    let other = left.iter_mut().find(|message| message["role"] == "user");
    if let (Some(first), Some(other)) = (first, other)
        && let (Some(one), Some(two)) = (first.as_str(), other["content"].as_str())
        && words(one) == words(two)
    {
        other["content"] = first.clone();
    }
}

/// Return the number of messages that both have in common before an answer of the model in each.
fn prompt(kept: &[Value], left: &[Value]) -> Result<usize, Drop> {
    let common = kept.iter().zip(left).take_while(|(one, other)| one == other).count();
    let next = [kept.get(common), left.get(common)];
    let speaks = |message: Option<&Value>| message.is_some_and(|message| message["role"] == "assistant");
    match next {
        _ if common == 0 => Err(Drop::RequestChanged),
        [None, _] | [_, None] => Err(Drop::SameAnswer),
        _ if next.into_iter().all(speaks) => Ok(common),
        // A tool's results that differ belong to answers that were alike.
        [Some(one), Some(other)] if one["role"] == "tool" && other["role"] == "tool" => {
            kept[..common].iter().rposition(|message| message["role"] == "assistant").ok_or(Drop::NoAnswer)
        }
        _ => Err(Drop::RequestChanged),
    }
}

/// Return the messages up to the user's next turn, without results after the model's last message.
fn answer(messages: &[Value]) -> Result<&[Value], Drop> {
    let end = messages.iter().position(|message| message["role"] == "user").unwrap_or(messages.len());
    let last = messages[..end].iter().rposition(|message| message["role"] == "assistant");
    last.map(|last| &messages[..=last]).ok_or(Drop::NoAnswer)
}

fn chat(prompt: &[Value], chosen: &[Value], rejected: &[Value], tools: Option<Value>) -> Map<String, Value> {
    let parts = [("prompt", prompt), ("chosen", chosen), ("rejected", rejected)];
    let parts = parts.map(|(key, messages)| (key, Value::Array(messages.to_vec())));
    let tools = tools.map(|tools| ("tools", tools));
    parts.into_iter().chain(tools).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Return a row of texts; a system prompt has a key of its own.
fn text(prompt: &[Value], chosen: &[Value], rejected: &[Value]) -> Result<Map<String, Value>, Drop> {
    let (system, asked) = match prompt {
        [asked] => (None, asked),
        [system, asked] if system["role"] == "system" => (Some(system), asked),
        _ => return Err(Drop::NotOneAnswer),
    };
    let only = |messages: &[Value]| match messages {
        [message] if message.get("tool_calls").is_none() => Ok(message["content"].clone()),
        _ => Err(Drop::NotOneAnswer),
    };
    let parts =
        [("prompt", asked["content"].clone()), ("chosen", only(chosen)?), ("rejected", only(rejected)?)];
    let system = system.map(|system| ("system", system["content"].clone()));
    Ok(parts.into_iter().chain(system).map(|(key, value)| (key.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, messages: &Value) -> Vec<u8> {
        json!({"karl_fast_trajectory": 1, "id": id, "messages": messages}).to_string().into_bytes()
    }

    fn says(role: &str, content: &str) -> Value {
        json!({"role": role, "content": content})
    }

    /// Return a message with the time of its trajectory.
    fn at(message: &Value, time: &str) -> Value {
        json!({"role": message["role"], "content": message["content"], "timestamp": time})
    }

    fn made(chosen: &[Value], rejected: &[Value], shape: PairShape) -> Result<Value, Drop> {
        let timed = |id: &str, all: &[Value]| record(id, &all.iter().map(|one| at(one, id)).collect());
        let [chosen, rejected] = [("c", chosen), ("r", rejected)].map(|(id, all)| timed(id, all));
        row(&chosen, &rejected, "rewound", shape).map(|line| serde_json::from_str(&line).unwrap())
    }

    #[test]
    fn answers_to_one_request_are_a_pair_up_to_the_next_turn() {
        let begin = [says("user", "add a test"), says("assistant", "which?"), says("user", "for add")];
        let chosen =
            [&begin[..], &[says("assistant", "done"), says("user", "thanks"), says("assistant", "!")]];
        let rejected = [&begin[..], &[says("assistant", "I cannot")]];
        let pair = made(&chosen.concat(), &rejected.concat(), PairShape::Chat).unwrap();
        assert_eq!(
            pair,
            json!({"prompt": begin, "chosen": [says("assistant", "done")],
                "rejected": [says("assistant", "I cannot")], "reason": "rewound",
                "karl_fast": {"chosen_id": "c", "rejected_id": "r"}})
        );
        assert_eq!(made(&chosen.concat(), &rejected.concat(), PairShape::Text), Err(Drop::NotOneAnswer));
    }

    #[test]
    fn requests_that_differ_in_spaces_and_case_are_one() {
        let chosen = [says("user", "Add  a test"), says("assistant", "done")];
        let rejected = [says("user", "add a test\n"), says("assistant", "no")];
        let pair = made(&chosen, &rejected, PairShape::Text).unwrap();
        assert_eq!([&pair["prompt"], &pair["chosen"], &pair["rejected"]], ["Add  a test", "done", "no"]);
    }

    #[test]
    fn an_answer_that_a_lost_connection_cut_is_not_rejected() {
        let asked = says("user", "add a test");
        let cut = json!({"role": "assistant", "content": "I wi", "cut": true, "weight": 0});
        let [whole, part] = [json!([asked, says("assistant", "done")]), json!([asked, cut])];
        let [whole, part] = [record("c", &whole), record("r", &part)];
        for (chosen, rejected) in [(&whole, &part), (&part, &whole)] {
            assert_eq!(row(chosen, rejected, "rewound", PairShape::Chat), Err(Drop::CutAnswer));
        }
    }

    #[test]
    fn a_candidate_that_is_no_pair_is_dropped_by_name() {
        let asked = says("user", "add a test");
        let done = [asked.clone(), says("assistant", "done")];
        for (other, wanted) in [
            (vec![asked.clone(), says("assistant", "done")], Drop::SameAnswer),
            (vec![says("user", "add two tests"), says("assistant", "done")], Drop::RequestChanged),
            (vec![asked.clone()], Drop::NoConversation),
            (vec![asked.clone(), says("user", "now"), says("assistant", "x")], Drop::RequestChanged),
        ] {
            assert_eq!(made(&done, &other, PairShape::Chat), Err(wanted), "{other:?}");
        }
    }
}
