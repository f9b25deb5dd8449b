//! Request of a user, in a form that can be compared.

/// Fewest words of a request that tells sessions apart: "continue" and "hi" do not.
const WORDS: usize = 4;

/// First prompt of a session, without case, marks and spaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request(String);

impl Request {
    /// Return the request in a prompt; `None` if it is too short.
    pub(super) fn of(prompt: &str) -> Option<Self> {
        let words = prompt.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(str::to_lowercase).collect();
        (words.len() >= WORDS).then(|| Self(words.join(" ")))
    }
}
