//! Reasons not to write a chosen record.

/// Reason not to write a chosen record. Each is counted under its name on every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// Rejected by the reference parser: damage in a value that the scan skipped, a lone surrogate, deep
    /// nesting.
    Unparsable,
    /// Without a conversation, a prompt with completion, or a text.
    NoTrajectory,
    /// Truncated rollout according to the tool.
    Truncated,
    /// Invalid message: not an object with a role (or `from`, as in `ShareGPT`), content or reasoning that is
    /// neither text nor parts of text, content under an unsupported key, an invalid tool call, or a last
    /// answer beside the messages.
    BadMessage,
    /// Images, audio or video beside the conversation, of the named kind; counted as [`Self::BadMessage`].
    Media(&'static str),
    /// Tool call of which the arguments are a text that is not a JSON object.
    BadArguments,
    /// Tools beside a conversation that are not a list of tools.
    BadTools,
    /// Message with an unknown role.
    UnknownRole,
    /// Model's message with a `weight` other than 0 or 1.
    BadWeight,
    /// `system` beside a conversation that is not a text, or differs from another or from the system message.
    BadSystem,
    /// Message with neither content nor tool calls.
    EmptyMessage,
    /// No assistant turn, or an empty completion.
    NoAssistantTurn,
    /// Only assistant turns with a `weight` of 0.
    NoLearnedTurn,
    /// Assistant turn with a `weight` of 0 in a data set of texts, which are learned in full.
    UnlearnedTurn,
    /// Text without a conversation in a data set of conversations.
    OtherShape,
    /// Tokens of a text with a secret or personal data, which could be read from them.
    PrivateTokens,
    /// Longer than the caller's limit of tokens.
    TooManyTokens,
    /// Rejected by the chat template of the caller's tokenizer.
    BadTemplate,
    /// No message before the answer, in a data set of prompts and answers.
    NoPrompt,
    /// No row of its group has a lower reward, in a data set of pairs.
    NoRejected,
    /// Every row of its group with a lower reward has a flaw of its own, in a data set of pairs.
    BadRejected,
    /// Pair of two equal answers, or of one that begins the other.
    SameAnswer,
    /// Pair of answers to two prompts, or with two sets of tools.
    OtherPrompt,
    /// No label, because its reward is missing or all rewards are equal.
    NoLabel,
    /// Tools, calls or their results in a form that cannot hold them.
    HasTools,
}

impl Flaw {
    /// Return the name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unparsable => "unparsable",
            Self::NoTrajectory => "no_trajectory",
            Self::Truncated => "truncated",
            Self::BadMessage | Self::Media(_) => "bad_message",
            Self::BadArguments => "bad_arguments",
            Self::BadTools => "bad_tools",
            Self::UnknownRole => "unknown_role",
            Self::BadWeight => "bad_weight",
            Self::BadSystem => "bad_system",
            Self::EmptyMessage => "empty_message",
            Self::NoAssistantTurn => "no_assistant_turn",
            Self::NoLearnedTurn => "no_learned_turn",
            Self::UnlearnedTurn => "unlearned_turn",
            Self::OtherShape => "other_shape",
            Self::PrivateTokens => "private_tokens",
            Self::TooManyTokens => "too_many_tokens",
            Self::BadTemplate => "bad_template",
            Self::NoPrompt => "no_prompt",
            Self::NoRejected => "no_rejected",
            Self::BadRejected => "bad_rejected",
            Self::SameAnswer => "same_answer",
            Self::OtherPrompt => "other_prompt",
            Self::NoLabel => "no_label",
            Self::HasTools => "has_tools",
        }
    }

    /// Return the flaw under which it is counted.
    #[must_use]
    pub const fn counted(self) -> Self {
        match self {
            Self::Media(_) => Self::BadMessage,
            flaw => flaw,
        }
    }

    /// Return the kind of media beside a conversation that is not written because of them.
    #[must_use]
    pub const fn media(self) -> Option<&'static str> {
        match self {
            Self::Media(kind) => Some(kind),
            _ => None,
        }
    }

    /// Return the flaw of that name, among those that only a caller can find.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::TooManyTokens, Self::BadTemplate].into_iter().find(|flaw| flaw.name() == name)
    }
}
