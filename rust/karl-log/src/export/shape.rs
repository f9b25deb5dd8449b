//! Shapes of rows: what a line of a data set holds, by the name used in options.

use crate::conversation::Example;

/// Shape of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `messages` and, if known, `tools`.
    Chat,
    /// `prompt` and `completion`, both lists of messages.
    PromptCompletion,
    /// `prompt` and `completion`, both text.
    PromptCompletionText,
    /// `text`.
    Text,
    /// The record's own bytes.
    Raw,
    /// `prompt`, `chosen` and `rejected`, all lists of messages.
    Preference,
    /// `prompt`, `completion` and `label`.
    Kto,
    /// `conversations` of texts.
    ShareGpt,
    /// `instruction`, `input`, `output`, `system` and `history`.
    Alpaca,
    /// `messages` and `tools`, with the arguments of calls as JSON text.
    OpenAi,
    /// A trajectory of Harbor.
    Atif,
    /// `messages` and `tools` of a Parquet file.
    Verl,
    /// `messages`, and `tools` as JSON text, of a Parquet file.
    PrimeRl,
}

/// Every shape, with the name used in options.
const NAMES: [(Shape, &str); 13] = [
    (Shape::Chat, "chat"),
    (Shape::PromptCompletion, "prompt-completion"),
    (Shape::PromptCompletionText, "prompt-completion-text"),
    (Shape::Text, "text"),
    (Shape::Raw, "raw"),
    (Shape::Preference, "preference"),
    (Shape::Kto, "kto"),
    (Shape::ShareGpt, "sharegpt"),
    (Shape::Alpaca, "alpaca"),
    (Shape::OpenAi, "openai"),
    (Shape::Atif, "atif"),
    (Shape::Verl, "verl"),
    (Shape::PrimeRl, "prime-rl"),
];

impl Shape {
    /// Return the name used in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(shape, _)| *shape == self).map_or("", |(_, name)| name)
    }

    /// Return the names of all shapes.
    #[must_use]
    pub fn names() -> [&'static str; NAMES.len()] {
        NAMES.map(|(_, name)| name)
    }

    /// Return the shape of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('_', "-");
        NAMES.iter().find(|(_, known)| *known == name).map(|(shape, _)| *shape)
    }

    /// Return the key of the object that holds the metadata of a row; empty if the row holds it itself. A trajectory
    /// of Harbor may have no other keys than its own.
    pub(super) const fn stamp_holder(self) -> &'static str {
        if let Self::Atif = self { "extra" } else { "" }
    }

    /// Return whether a row without tools has null under `tools` if another one has some: readers of tables want the
    /// same keys in every row, and a service wants none that are empty.
    pub(super) const fn has_null_tools(self) -> bool {
        !matches!(self, Self::OpenAi | Self::Atif)
    }

    /// Return the actual shape of a data set requested in this shape: if no first row has a conversation,
    /// their own shape.
    pub(super) fn settle(self, examples: &[&Example]) -> Self {
        let chat = |example: &&Example| matches!(example, Example::Chat { .. });
        let text = |example: &&Example| matches!(example, Example::Text(_));
        match self {
            Self::Chat if examples.iter().any(chat) => Self::Chat,
            Self::Chat | Self::PromptCompletion | Self::PromptCompletionText if examples.iter().all(text) => {
                Self::Text
            }
            Self::Chat => Self::PromptCompletionText,
            other => other,
        }
    }
}
