//! Presets: where the logs of known tools keep a record's id, group, reward and conversation.
//!
//! One file a format, each a constant; a format is told by the keys of a record. [`generic`] stands last: it fits
//! every record and takes the fields that carry their own names. [`expr`] is the language of their entries.

pub mod expr;
pub mod generic;
pub mod karl;
pub mod prime_rl;
pub mod tau_bench;
pub mod trajectory;
pub mod trl;
pub mod verifiers;
pub mod verl;

pub use expr::{Choice, Field, Made};

use crate::error::{Error, Result};
use crate::json::project::Path;

/// Where one tool keeps things. Every entry but the first three is a [`Field`] or a dotted path; an empty one means
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
    const NOTHING: Self = Self {
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

/// All formats, the one that fits everything last.
pub const FORMATS: [&Format; 8] = [
    &trajectory::TRAJECTORY,
    &tau_bench::TAU_BENCH,
    &prime_rl::PRIME_RL,
    &verifiers::VERIFIERS,
    &verl::VERL,
    &trl::TRL,
    &karl::KARL,
    &generic::GENERIC,
];

/// The format of that name; `_` and `-`, upper and lower case are the same.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Format> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    FORMATS.into_iter().find(|format| format.name == name)
}

/// The first format of which these top-level keys hold a signature.
#[must_use]
pub fn by_keys(keys: &[String]) -> &'static Format {
    claimed_by(&|wanted| keys.iter().any(|key| key == wanted)).unwrap_or(&generic::GENERIC)
}

/// The first format that claims an object which has certain keys.
pub(crate) fn claimed_by(has: &dyn Fn(&str) -> bool) -> Option<&'static Format> {
    let claims = |signature: &&[&str]| signature.iter().all(|key| has(key));
    FORMATS.into_iter().find(|format| format.signatures.iter().any(claims))
}

/// What a caller wants taken from elsewhere than the format says.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Instead of the format's id: paths separated by commas.
    pub id: Option<String>,
    /// Instead of the format's group: fields separated by commas.
    pub group: Option<String>,
    /// Instead of the format's reward: the paths of its components.
    pub reward: Option<Vec<String>>,
    /// Instead of the format's conversation.
    pub messages: Option<String>,
    /// Instead of the format's category.
    pub domain: Option<String>,
    /// A category that log Z is taken over.
    pub partition: Option<String>,
}

/// Where to look for everything in one file's records.
#[derive(Clone, Debug)]
pub struct Fields {
    /// The parts of the id, joined by `/`.
    pub id: Vec<Path>,
    /// The parts of the group, joined by `/`.
    pub group: Vec<Field>,
    /// The components of the reward.
    pub reward: Vec<Field>,
    /// The category for reports.
    pub domain: Option<Field>,
    /// The category that log Z is taken over.
    pub partition: Option<Field>,
    /// The conversation.
    pub messages: Option<Field>,
    /// The tools.
    pub tools: Option<Field>,
    /// The prompt.
    pub prompt: Option<Field>,
    /// The completion.
    pub completion: Option<Field>,
    /// The text.
    pub text: Option<Field>,
    /// What a rollout holds that failed.
    pub failed: Option<Path>,
    /// True of a rollout that was cut short.
    pub truncated: Option<Path>,
    /// The key under which a message without content may keep its words.
    pub reasoning: &'static str,
}

impl Fields {
    /// A format's fields with the caller's wishes over them; `number` is what the format's sidecar holds.
    ///
    /// # Errors
    /// [`Error::Field`] for a field that means nothing.
    pub fn new(format: &Format, overrides: &Overrides, number: Option<u64>) -> Result<Self> {
        let name = |wish: &Option<String>, own: &str| optional(wish.as_deref().unwrap_or(own), Field::name);
        let group = overrides.group.clone().unwrap_or_else(|| own_group(format, number));
        Ok(Self {
            id: all(overrides.id.as_deref().unwrap_or(format.id), id_part)?,
            group: all(&group, Field::name)?,
            reward: match &overrides.reward {
                Some(fields) => fields.iter().map(|field| Field::number(field)).collect::<Result<_>>()?,
                None => vec![Field::number(format.reward)?],
            },
            domain: name(&overrides.domain, format.domain)?,
            partition: name(&overrides.partition, "")?,
            messages: optional(overrides.messages.as_deref().unwrap_or(format.messages), Field::value)?,
            tools: optional(format.tools, Field::value)?,
            prompt: optional(format.prompt, Field::value)?,
            completion: optional(format.completion, Field::value)?,
            text: optional(format.text, Field::value)?,
            failed: optional(format.failed, Path::parse)?,
            truncated: optional(format.truncated, Path::parse)?,
            reasoning: format.reasoning,
        })
    }

    /// Each field as it is written, parts joined by commas; those that the tool does not keep are absent.
    #[must_use]
    pub fn paths(&self) -> Vec<(&'static str, String)> {
        let join = |parts: &[Field]| parts.iter().map(Field::to_string).collect::<Vec<_>>().join(",");
        let one = |field: &Option<Field>| field.as_ref().map_or_else(String::new, Field::to_string);
        let path = |path: &Option<Path>| path.as_ref().map_or_else(String::new, Path::to_string);
        let all = [
            ("id", self.id.iter().map(Path::to_string).collect::<Vec<_>>().join(",")),
            ("group", join(&self.group)),
            ("reward", join(&self.reward)),
            ("messages", one(&self.messages)),
            ("tools", one(&self.tools)),
            ("prompt", one(&self.prompt)),
            ("completion", one(&self.completion)),
            ("text", one(&self.text)),
            ("domain", one(&self.domain)),
            ("partition", one(&self.partition)),
            ("failed", path(&self.failed)),
            ("truncated", path(&self.truncated)),
        ];
        all.into_iter().filter(|(_, path)| !path.is_empty()).collect()
    }

    /// The top-level keys of a record that anything is looked for under.
    #[must_use]
    pub fn roots(&self) -> Vec<&str> {
        let several = self.group.iter().chain(&self.reward);
        let single = [&self.domain, &self.partition, &self.messages, &self.tools, &self.prompt];
        let last = [&self.completion, &self.text];
        let fields = several.chain(single.into_iter().flatten()).chain(last.into_iter().flatten());
        let made = fields.flat_map(Field::choices).map(|choice| &choice.path);
        let plain = self.id.iter().chain(&self.failed).chain(&self.truncated);
        made.chain(plain).map(Path::root).collect()
    }

    /// The fields that together are the trajectory, for telling identical ones.
    pub(crate) fn trajectory(&self) -> impl Iterator<Item = &Field> {
        [&self.messages, &self.prompt, &self.completion, &self.text].into_iter().flatten()
    }

    /// Whether an object with these top-level keys can be a record: it has a reward or a trajectory.
    pub(crate) fn fit(&self, keys: &[String]) -> bool {
        let telling = self.reward.iter().chain(self.trajectory()).flat_map(Field::choices);
        telling.into_iter().any(|choice| keys.iter().any(|key| key == choice.path.root()))
    }
}

/// The format's group with the number of its sidecar in it; none where that is not known.
fn own_group(format: &Format, number: Option<u64>) -> String {
    match (format.sidecar, number) {
        (None, _) => format.group.to_owned(),
        (Some(sidecar), Some(number)) => format.group.replace(sidecar.number, &number.to_string()),
        (Some(_), None) => String::new(),
    }
}

/// An id is taken as it stands in the record, so that a row can be found again by it.
fn id_part(text: &str) -> Result<Path> {
    let field = Field::name(text)?;
    match field.choices() {
        [Choice { path, made: Made::AsIs }] => Ok(path.clone()),
        _ => Err(Error::Field { path: text.to_owned(), problem: "an id is made of plain paths" }),
    }
}

/// What stands between commas; nothing in an empty text.
fn all<T>(text: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(|part| parse(part.trim())).collect()
}

fn optional<T>(text: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Option<T>> {
    (!text.is_empty()).then(|| parse(text)).transpose()
}
