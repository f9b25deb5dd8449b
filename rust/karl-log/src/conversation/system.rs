//! System text beside a conversation in its record.

use serde_json::Value;

use super::flaw::Flaw;
use super::openai;
use super::turn::{begins_with_system, speaker, text_of};
use crate::format::Field;

/// Keys of the system text beside a conversation.
const SYSTEM: [&str; 6] =
    ["system", "system_prompt", "system_message", "system_instruction", "systemInstruction", "instructions"];

/// Return the paths of the objects around a conversation, innermost first.
pub(super) fn around(conversation: Option<&Field>) -> Vec<&[String]> {
    let choices = conversation.into_iter().flat_map(Field::choices);
    let mut around: Vec<&[String]> =
        choices.filter_map(|choice| choice.path.segments().split_last()).map(|(_, around)| around).collect();
    around.push(&[]);
    around
}

/// Take the system text that is beside a conversation, or in the record around it, and not in its messages.
///
/// # Errors
/// [`Flaw::BadSystem`] for a text that differs from another or from the system message, and for a value that
/// is not a text if there is no such message.
pub(super) fn beside(
    record: &mut Value,
    conversation: Option<&Field>,
    messages: &[Value],
) -> Result<Option<String>, Flaw> {
    let has_own = begins_with_system(messages);
    let mut texts: Vec<String> = Vec::new();
    for path in around(conversation) {
        let object = path.iter().try_fold(&mut *record, |value, key| value.as_object_mut()?.get_mut(key));
        let Some(object) = object.and_then(Value::as_object_mut) else { continue };
        for key in SYSTEM {
            let Some(found) = object.get_mut(key).filter(|found| !found.is_null()) else { continue };
            let Some(text) = text_of(found).or_else(|| found.get("parts").and_then(openai::texts)) else {
                if has_own {
                    continue;
                }
                return Err(Flaw::BadSystem);
            };
            *found = Value::Null;
            let is_known = text.is_empty() || texts.contains(&text) || is_said(messages, key, &text);
            texts.extend(Some(text).filter(|_| !is_known));
        }
    }
    let differs = texts.len() > usize::from(!has_own);
    if differs { Err(Flaw::BadSystem) } else { Ok(texts.pop()) }
}

/// Return whether a system message has this text, or any message if its key is `instructions`.
fn is_said(messages: &[Value], key: &str, text: &str) -> bool {
    let content = |message: &Value| message.get("content").or_else(|| message.get("value")).and_then(text_of);
    let mut heard = messages.iter().filter(|one| key == "instructions" || speaker(one) == Some("system"));
    heard.any(|message| content(message).is_some_and(|content| content.trim() == text.trim()))
}
