//! Records as input of a reward function: prompt, completion and the whole record.

use serde_json::{Value, json};

use super::example::{Example, example};
use crate::format::{Field, Fields};
use crate::json::reference_parser;
use crate::json::reference_parser::lookup;

pub(crate) fn reward_input(bytes: &[u8], fields: &Fields) -> Option<String> {
    let record = reference_parser::parse_rollout(bytes).ok()?;
    let (prompt, completion) = example(record.clone(), fields)
        .map_or_else(|_| nothing(&record, fields), |read| halves(read.example));
    serde_json::to_string(&(prompt, completion, record)).ok()
}

fn halves(example: Example) -> (Value, Value) {
    match example {
        Example::Chat { mut messages, .. } => {
            let first = messages.iter().position(|message| message["role"] == "assistant");
            let completion = messages.split_off(first.unwrap_or(messages.len()));
            (Value::Array(messages), Value::Array(completion))
        }
        Example::Completion { prompt, completion } => (prompt.into(), completion.into()),
        Example::Text(text) => (String::new().into(), text.into()),
    }
}

/// Return an empty prompt and an empty completion, in the form of the record.
fn nothing(record: &Value, fields: &Fields) -> (Value, Value) {
    let choices = fields.completion.iter().flat_map(Field::choices);
    let text = choices.filter_map(|choice| lookup(record, &choice.path)).any(Value::is_string);
    if text { (json!(""), json!("")) } else { (json!([]), json!([{"role": "assistant", "content": ""}])) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot read its own record fails")]
mod tests {
    use super::*;
    use crate::format::{Overrides, by_name};

    fn halves_of(text: &str) -> (Value, Value) {
        halves(example(reference_parser::parse(text.as_bytes()).unwrap(), &fields()).unwrap().example)
    }

    fn fields() -> Fields {
        Fields::new(by_name("generic").unwrap(), &Overrides::default(), None).unwrap()
    }

    #[test]
    fn a_conversation_is_cut_before_its_first_assistant_turn() {
        let [system, user, assistant] =
            ["system", "user", "assistant"].map(|role| json!({"role": role, "content": "x"}));
        let messages = json!([system, user, assistant, user, assistant, user]);
        let (prompt, completion) = halves_of(&json!({ "messages": messages }).to_string());
        assert_eq!(prompt, json!([system, user]));
        assert_eq!(completion, json!([assistant, user, assistant]));
    }

    #[test]
    fn texts_stay_texts() {
        assert_eq!(halves_of(r#"{"prompt": "a", "completion": "b"}"#), (json!("a"), json!("b")));
        assert_eq!(halves_of(r#"{"text": "b"}"#), (json!(""), json!("b")));
    }

    #[test]
    fn what_is_no_example_has_empty_halves_and_damage_is_nothing() {
        let told = |record: &str| reward_input(record.as_bytes(), &fields()).unwrap();
        let empty = r#"[[],[{"role":"assistant","content":""}],"#;
        let big = r#"{"id":1,"big":12345678901234567890123}"#;
        assert_eq!(told(big), format!("{empty}{big}]"));
        let unanswered = r#"{"prompt":"a","completion":""}"#;
        assert_eq!(told(unanswered), format!(r#"["","",{unanswered}]"#));
        assert_eq!(reward_input(br#"{"id": 1, "x": "\ud800"}"#, &fields()), None);
    }
}
