//! Preset of a tool.

/// Fields of one tool. Every entry but the first three is a [`Field`](super::Field) or a dotted path; an
/// empty one means that the tool does not write it.
#[derive(Debug)]
pub struct Format {
    /// Name in options and reports.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Sets of top-level keys that only records of this tool have together; one set for each form of its
    /// records.
    pub signatures: &'static [&'static [&'static str]],
    /// Paths of the parts of a record's id, joined by `/`.
    pub id: &'static str,
    /// Prompt or task that records share: fields, joined like those of the id.
    pub group: &'static str,
    /// Number in the group that is in no record.
    pub sidecar: Option<Sidecar>,
    /// Reward.
    pub reward: &'static str,
    /// Category for reports.
    pub domain: &'static str,
    /// Conversation: an array of objects with `role` and `content`.
    pub messages: &'static str,
    /// Tools offered to the model.
    pub tools: &'static str,
    /// Prompt of records without a conversation.
    pub prompt: &'static str,
    /// Completion of records without a conversation.
    pub completion: &'static str,
    /// Text of records with neither.
    pub text: &'static str,
    /// Path that is set in a rollout that failed for reasons outside the model: its row has no reward.
    pub failed: &'static str,
    /// Path that is true in a truncated rollout: its reward counts, its text is not written.
    pub truncated: &'static str,
    /// Key of a message's text when its `content` is null.
    pub reasoning: &'static str,
    /// Version of the policy that made a rollout, or the trainer's step that identifies it.
    pub policy_version: &'static str,
    /// Name of the model.
    pub model: &'static str,
    /// Number of input tokens; 0 is unknown.
    pub input_tokens: &'static str,
    /// Number of output tokens; 0 is unknown.
    pub output_tokens: &'static str,
}

/// Formats are equal if their names are.
impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

impl Format {
    /// Preset without any field.
    pub(super) const NOTHING: Self = Self {
        name: "",
        about: "",
        signatures: &[],
        id: "",
        group: "",
        sidecar: None,
        reward: "",
        domain: "",
        messages: "",
        tools: "",
        prompt: "",
        completion: "",
        text: "",
        failed: "",
        truncated: "",
        reasoning: "",
        policy_version: "",
        model: "",
        input_tokens: "",
        output_tokens: "",
    };
}

/// Number that a tool writes to a file beside the log; the format's group refers to it by name.
#[derive(Clone, Copy, Debug)]
pub struct Sidecar {
    /// Name of the file.
    pub file: &'static str,
    /// Key of the number.
    pub number: &'static str,
}
