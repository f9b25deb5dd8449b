//! Trajectory as outcomes read it: texts, calls and results, lenient with everything else.

use std::borrow::Cow;
use std::fmt;

use karl_log::json::reference_parser;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Trajectory of one session or sub-agent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Trajectory<'a> {
    #[serde(borrow)]
    pub(crate) id: Text<'a>,
    pub(crate) group: Text<'a>,
    pub(crate) reward: Option<f64>,
    pub(crate) parent: Option<Parent>,
    pub(crate) started_at: Text<'a>,
    pub(crate) ended_at: Text<'a>,
    pub(crate) source: Origin,
    pub(crate) messages: Vec<TrajectoryMessage<'a>>,
}

/// Trajectory that called this one.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Parent {
    pub(crate) id: String,
}

/// Origin of a trajectory.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Origin {
    pub(crate) format: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) cwd: Option<String>,
    /// Repository at the start, as Codex records it.
    pub(crate) git: Value,
    pub(crate) files: Vec<String>,
}

/// One message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TrajectoryMessage<'a> {
    #[serde(borrow)]
    pub(crate) role: Text<'a>,
    pub(crate) content: Text<'a>,
    pub(crate) timestamp: Text<'a>,
    /// Sender of a message in the user's name that the user did not type.
    pub(crate) origin: Text<'a>,
    pub(crate) interrupted: bool,
    pub(crate) tool_call_id: Text<'a>,
    pub(crate) success: Option<bool>,
    pub(crate) tool_calls: Vec<ToolCall<'a>>,
}

impl TrajectoryMessage<'_> {
    /// Return whether its words are the user's: typed, or sent through a channel.
    pub(crate) fn is_of_user(&self) -> bool {
        self.role.as_str() == "user" && matches!(self.origin.as_str(), "" | "channel")
    }
}

/// Tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(crate) id: Text<'a>,
    pub(crate) function: Function<'a>,
}

/// Function of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Function<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    pub(crate) arguments: Text<'a>,
}

/// Parse a record and pass its trajectory to `take`; `None` if it is not a trajectory.
pub(crate) fn with<T>(record: &[u8], take: impl FnOnce(&Trajectory<'_>) -> T) -> Option<T> {
    if let Ok(trajectory) = serde_json::from_slice(record) {
        return Some(take(&trajectory));
    }
    // Words that only Python's json writes, and the like: the reference parser accepts and replaces them.
    let text = reference_parser::parse(record).ok()?.to_string();
    serde_json::from_str(&text).ok().map(|trajectory| take(&trajectory))
}

/// Text of a record, borrowed if it has no escapes; empty in place of any other value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    /// Return the text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Return the text, unless it is empty.
    pub(crate) fn some(&self) -> Option<&str> {
        Some(self.as_str()).filter(|text| !text.is_empty())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Self)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    /// Return the texts of the parts of a content, joined by line breaks.
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(part) = parts.next_element::<Value>()? {
            texts.extend(part.get("text").and_then(Value::as_str).map(str::to_owned));
        }
        Ok(Cow::Owned(texts.join("\n")))
    }

    /// Return nothing for an object. Numbers with kept digits are objects too.
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Cow::Borrowed(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_other_types_are_empty_texts() {
        let record = br#"{"id": 1.5, "parent": null, "reward": 0.5, "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a\n"}, {"type": "image"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": {"name": "Bash",
             "arguments": "{}"}}]}, {"role": "tool", "content": "x", "success": false}], "more": {"a": NaN}}"#;
        let seen = with(record, |trajectory| {
            assert_eq!((trajectory.id.as_str(), trajectory.reward), ("", Some(0.5)));
            let messages = &trajectory.messages;
            assert_eq!(messages[0].content.as_str(), "a\n");
            assert_eq!(messages[1].tool_calls[0].function.name.as_str(), "Bash");
            assert_eq!((messages[2].success, messages[1].content.some()), (Some(false), None));
        });
        assert!(seen.is_some());
        assert!(with(b"5", |_| ()).is_none());
        assert!(with(br#"{"messages": 5}"#, |_| ()).is_none());
    }
}
