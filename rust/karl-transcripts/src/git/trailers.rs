//! Trailers of commit messages that name a session.

/// Words in the keys of such trailers: `Entire-Checkpoint`, `Claude-Session`, `Conversation-Id`.
const KEYS: [&str; 3] = ["session", "checkpoint", "conversation"];

/// Fewest characters of an id.
const SHORTEST: usize = 8;

/// Return the ids in the trailers of a message. The last part of an address counts as an id too.
pub(crate) fn ids(message: &str) -> impl Iterator<Item = &str> {
    let trailers =
        message.lines().filter_map(|line| line.split_once(": ")).filter(|(key, _)| names_session(key));
    trailers.flat_map(|(_, value)| value.split([' ', ',', '/'])).filter(|id| id.len() >= SHORTEST)
}

fn names_session(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && KEYS.iter().any(|word| key.contains(word))
}

#[cfg(test)]
mod tests {
    use super::ids;

    #[test]
    fn ids_of_sessions_in_trailers() {
        let message = "Fix session: handling\n\nSee https://x/1234567890.\n\nEntire-Checkpoint: 0e6b66910244\n\
                       Claude-Session: https://claude.ai/code/session_01ABCdef\nSigned-off-by: Someone 1234567890\n";
        assert_eq!(ids(message).collect::<Vec<_>>(), ["0e6b66910244", "claude.ai", "session_01ABCdef"]);
    }
}
