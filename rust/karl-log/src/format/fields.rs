//! Where one file keeps things: its format, with what the caller wants from elsewhere.

use super::expr::{Choice, Field, Made};
use super::preset::Format;
use crate::error::{Error, Result};
use crate::json::project::Path;

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
