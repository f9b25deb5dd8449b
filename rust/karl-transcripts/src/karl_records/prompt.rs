//! Prompts of a session, each with the messages that followed it.

use std::ops::Range;

use super::annotation::Annotation;
use crate::outcomes::next_turn::{is_written_by_tool, next_turns};
use crate::tool_calls::trajectory::TrajectoryMessage;

/// Prompt of a user, and the work on it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    /// Words of the user; empty if the session begins with the agent.
    pub(super) text: String,
    /// Messages from the prompt to the next.
    pub(super) messages: Range<usize>,
    /// Annotation by the next prompt.
    pub(super) annotation: Annotation,
}

/// Return the prompts of a session in order. A turn that a tool wrote in the user's name belongs to the prompt
/// before it.
pub(super) fn prompts(messages: &[TrajectoryMessage<'_>]) -> Vec<Prompt> {
    let texts = messages.iter().map(|message| (message.role.as_str(), message.content.as_str()));
    let turns: Vec<_> =
        next_turns(texts).into_iter().filter(|turn| !is_written_by_tool(&turn.text)).collect();
    let starts: Vec<usize> = [0].into_iter().chain(turns.iter().map(|turn| turn.message)).collect();
    let ends = starts.iter().skip(1).copied().chain([messages.len()]);
    let found: Vec<(String, Range<usize>)> =
        starts.iter().zip(ends).map(|(&start, end)| (own_text(&messages[start..end]), start..end)).collect();
    let texts: Vec<String> = found.iter().map(|(text, _)| text.clone()).collect();
    let annotate = |at: usize| Annotation::by(&texts[at], turns.get(at));
    found
        .into_iter()
        .enumerate()
        .map(|(at, (text, messages))| Prompt { text, messages, annotation: annotate(at) })
        .collect()
}

/// Return the words of the user in some messages.
fn own_text(messages: &[TrajectoryMessage<'_>]) -> String {
    let own = messages.iter().filter(|message| message.role.as_str() == "user");
    let texts = own.map(|message| message.content.as_str()).filter(|text| !is_written_by_tool(text));
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool_calls::trajectory::with;

    #[test]
    fn a_prompt_has_the_messages_up_to_the_next() {
        let says = |role: &str, content: &str| json!({"role": role, "content": content});
        let messages = [
            says("system", "be brief"),
            says("user", "add a test"),
            says("user", "for add"),
            says("assistant", "done"),
            says("user", "<task-notification>the tests are failing</task-notification>"),
            says("assistant", "I look"),
            says("user", "thanks"),
        ];
        let record = json!({"id": "s", "messages": messages}).to_string();
        let found = with(record.as_bytes(), |trajectory| prompts(&trajectory.messages)).unwrap();
        let seen: Vec<_> = found.iter().map(|one| (one.text.as_str(), one.messages.clone())).collect();
        assert_eq!(seen, [("add a test\nfor add", 0..6), ("thanks", 6..7)]);
        assert_eq!([0, 1].map(|at| found[at].annotation.correction), [Some(false), None]);
    }
}
