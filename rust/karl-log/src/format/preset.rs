//! What a preset says of a tool.

/// Where one tool keeps things. Every entry but the first three is a [`Field`](super::Field) or a dotted path; an empty one means
/// that the tool keeps no such thing.
#[derive(Debug)]
pub struct Format {
    /// The name by which it is asked for and reported.
    pub name: &'static str,
    /// What it reads, in one line.
    pub about: &'static str,
    /// Top-level keys that records of this tool have, and together only its records; one list for each form that
    /// they have had.
    pub signatures: &'static [&'static [&'static str]],
    /// The paths of the parts of a record's id, joined by `/`.
    pub id: &'static str,
    /// The prompt or task that records share: fields, joined as those of the id.
    pub group: &'static str,
    /// A number in the group that stands in no record.
    pub sidecar: Option<Sidecar>,
    /// The reward.
    pub reward: &'static str,
    /// A category for reports.
    pub domain: &'static str,
    /// The conversation: an array of objects with `role` and `content`.
    pub messages: &'static str,
    /// The tools that the model was offered.
    pub tools: &'static str,
    /// For records without a conversation.
    pub prompt: &'static str,
    /// For records without a conversation.
    pub completion: &'static str,
    /// For records without either.
    pub text: &'static str,
    /// What a rollout holds that failed for no fault of the model: its row has no reward.
    pub failed: &'static str,
    /// True of a rollout that was cut short: its reward counts, its text is not written.
    pub truncated: &'static str,
    /// Where a message keeps its words when its `content` is null.
    pub reasoning: &'static str,
    /// The version of the policy that made a rollout, or the step of the trainer that says it.
    pub policy_version: &'static str,
    /// The model's name.
    pub model: &'static str,
    /// How many tokens went in; 0 is unknown.
    pub input_tokens: &'static str,
    /// How many tokens came out; 0 is unknown.
    pub output_tokens: &'static str,
}

/// Formats are told apart by name.
impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

impl Format {
    /// A tool that keeps nothing.
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

/// A number that a tool keeps in a file beside the log, and that stands in the format's group by its name.
#[derive(Clone, Copy, Debug)]
pub struct Sidecar {
    /// The name of the file.
    pub file: &'static str,
    /// The key of the number.
    pub number: &'static str,
}
