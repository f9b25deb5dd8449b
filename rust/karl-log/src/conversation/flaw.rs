//! Why a chosen record is not written.

/// Why a chosen record is not written. Each is counted under its name on every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// The trusted parser refuses it: damage in a value that the scan skipped, a lone surrogate, deep nesting.
    Unparsable,
    /// It holds no conversation, no prompt with completion and no text.
    NoTrajectory,
    /// The tool says that the rollout was cut short.
    Truncated,
    /// A message is no object with a role (or `from`, as in `ShareGPT`), its content or its reasoning is neither text nor
    /// parts of text, it keeps what it says where nothing is read, a tool call is none, or the last answer stands beside
    /// the messages under a key that is not read.
    BadMessage,
    /// The role of a message is none of those that are read.
    UnknownRole,
    /// The `weight` of the model's message is neither 0 nor 1.
    BadWeight,
    /// The `system` beside a conversation is no text, or differs from another or from the system message.
    BadSystem,
    /// A message has neither content nor tool calls.
    EmptyMessage,
    /// No turn of the assistant, or nothing in its completion.
    NoAssistantTurn,
    /// Every turn of the assistant has a `weight` of 0.
    NoLearnedTurn,
    /// A turn of the assistant has a `weight` of 0, in a data set of texts, of which all is learned.
    UnlearnedTurn,
    /// A text without a conversation in a data set of conversations.
    OtherShape,
    /// Longer than the caller's limit of tokens.
    TooManyTokens,
    /// The chat template of the caller's tokenizer refuses it.
    BadTemplate,
}

impl Flaw {
    /// The name that reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unparsable => "unparsable",
            Self::NoTrajectory => "no_trajectory",
            Self::Truncated => "truncated",
            Self::BadMessage => "bad_message",
            Self::UnknownRole => "unknown_role",
            Self::BadWeight => "bad_weight",
            Self::BadSystem => "bad_system",
            Self::EmptyMessage => "empty_message",
            Self::NoAssistantTurn => "no_assistant_turn",
            Self::NoLearnedTurn => "no_learned_turn",
            Self::UnlearnedTurn => "unlearned_turn",
            Self::OtherShape => "other_shape",
            Self::TooManyTokens => "too_many_tokens",
            Self::BadTemplate => "bad_template",
        }
    }

    /// The flaw of that name, of those that only a caller can find.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::TooManyTokens, Self::BadTemplate].into_iter().find(|flaw| flaw.name() == name)
    }
}
