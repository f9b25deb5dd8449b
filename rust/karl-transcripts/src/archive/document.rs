//! JSON documents as lines, so that a document that grows adds only what is new.
//!
//! ```text
//! {"sessionId": ..., "messages": [M, M]}  ──►  {"sessionId": ...}  the keys, without the messages
//!                                              M                   one line a message
//!                                              M
//! ```

use serde_json::{Map, Value};

/// Keys of a document's list of messages: Gemini CLI, and the old form of Copilot CLI.
const MESSAGES: [&str; 2] = ["messages", "chatMessages"];

/// Return a document as lines: its keys, then its messages. Another JSON text is one line.
///
/// # Errors
/// The text is not JSON, as while the agent writes it.
pub(super) fn lines(text: &[u8]) -> serde_json::Result<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(text)?;
    let messages = document.as_object_mut().map(messages).unwrap_or_default();
    let mut out = Vec::with_capacity(text.len());
    for value in std::iter::once(document).chain(messages) {
        serde_json::to_writer(&mut out, &value)?;
        out.push(b'\n');
    }
    Ok(out)
}

fn messages(document: &mut Map<String, Value>) -> Vec<Value> {
    let key = MESSAGES.into_iter().find(|key| document.get(*key).is_some_and(Value::is_array));
    match key.and_then(|key| document.shift_remove(key)) {
        Some(Value::Array(messages)) => messages,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn a_document_is_its_keys_and_its_messages() {
        let text = br#"{"sessionId": "s", "messages": [{"id": 1.50}, {"id": "b"}], "lastUpdated": 2}"#;
        let wanted = "{\"sessionId\":\"s\",\"lastUpdated\":2}\n{\"id\":1.50}\n{\"id\":\"b\"}\n";
        assert_eq!(String::from_utf8(lines(text).unwrap()).unwrap(), wanted);
        assert_eq!(lines(b"[1]").unwrap(), b"[1]\n");
        assert!(lines(b"{\"messages\": [").is_err());
    }
}
