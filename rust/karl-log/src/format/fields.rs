//! Fields of one file: those of its format, with the caller's overrides.

use super::expr::{Choice, Field, Transform, split_unquoted};
use super::preset::Format;
use crate::error::{Error, Result};
use crate::json::project::Path;

/// Key that a row which is one element of the lists of a record has in addition: `id`, the record that it is `of`, and
/// the `index` of the element.
pub const ELEMENT: &str = "karl_fast_element";

/// Fields that override those of the format.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Id: paths separated by commas.
    pub id: Option<String>,
    /// Group: fields separated by commas.
    pub group: Option<String>,
    /// Reward: the paths of its components.
    pub reward: Option<Vec<String>>,
    /// Conversation. A prompt or a completion that is named without it takes its place.
    pub messages: Option<String>,
    /// Prompt of a completion.
    pub prompt: Option<String>,
    /// Completion.
    pub completion: Option<String>,
    /// System prompt beside the conversation.
    pub system: Option<String>,
    /// Tools offered to the model.
    pub tools: Option<String>,
    /// Domain.
    pub domain: Option<String>,
    /// Category over which log Z is computed.
    pub partition: Option<String>,
    /// Order: a number or a time.
    pub order: Option<String>,
}

/// Fields of the records of one file.
#[derive(Clone, Debug)]
pub struct Fields {
    /// Parts of the id, joined by `/`.
    pub id: Vec<Path>,
    /// Parts of the group, joined by `/`.
    pub group: Vec<Field>,
    /// Components of the reward.
    pub reward: Vec<Field>,
    /// Category for reports.
    pub domain: Option<Field>,
    /// Category over which log Z is computed.
    pub partition: Option<Field>,
    /// Order of the records: a number or a time.
    pub order: Option<Field>,
    /// Conversation.
    pub messages: Option<Field>,
    /// System prompt beside the conversation, if the caller names it.
    pub system: Option<Field>,
    /// Tools.
    pub tools: Option<Field>,
    /// Prompt.
    pub prompt: Option<Field>,
    /// Completion.
    pub completion: Option<Field>,
    /// Text.
    pub text: Option<Field>,
    /// Path that is set in a failed rollout.
    pub failed: Option<Path>,
    /// Path that is true in a truncated rollout.
    pub truncated: Option<Path>,
    /// Key of the text of a message without content.
    pub reasoning: &'static str,
    /// Lists of which each element makes a row.
    pub lists: Vec<Path>,
    /// Parts of the id of a record that holds such lists.
    pub of: Vec<Path>,
    /// True if the records are the values of an object, each under its name.
    pub is_named: bool,
}

impl Fields {
    /// Return a format's fields with the caller's overrides; `number` is the number from the format's
    /// sidecar.
    ///
    /// # Errors
    /// [`Error::Field`] for an invalid field.
    pub fn new(format: &Format, overrides: &Overrides, number: Option<u64>) -> Result<Self> {
        let name = |wish: &Option<String>, own: &str| optional(wish.as_deref().unwrap_or(own), Field::name);
        let value = |wish: &Option<String>, own: &str| optional(wish.as_deref().unwrap_or(own), Field::value);
        let in_halves = overrides.prompt.is_some() || overrides.completion.is_some();
        let group = overrides.group.clone().unwrap_or_else(|| own_group(format, number));
        let fields = Self {
            id: all(overrides.id.as_deref().unwrap_or(format.id), id_part)?,
            group: all(&group, Field::name)?,
            reward: match &overrides.reward {
                Some(fields) => fields.iter().map(|field| Field::number(field)).collect::<Result<_>>()?,
                None => vec![Field::number(format.reward)?],
            },
            domain: name(&overrides.domain, format.domain)?,
            partition: name(&overrides.partition, "")?,
            order: optional(overrides.order.as_deref().unwrap_or_default(), Field::number)?,
            messages: value(&overrides.messages, if in_halves { "" } else { format.messages })?,
            system: value(&overrides.system, "")?,
            tools: value(&overrides.tools, format.tools)?,
            prompt: value(&overrides.prompt, format.prompt)?,
            completion: value(&overrides.completion, format.completion)?,
            text: optional(if in_halves { "" } else { format.text }, Field::value)?,
            failed: optional(format.failed, Path::parse)?,
            truncated: optional(format.truncated, Path::parse)?,
            reasoning: format.reasoning,
            lists: Vec::new(),
            of: Vec::new(),
            is_named: false,
        };
        Ok(fields.of_elements(overrides.group.is_none()))
    }

    /// Take in the lists of which each element makes a row: such a row is named by its record and its place in the list,
    /// and its record is its group where it has no other.
    fn of_elements(mut self, is_own_group: bool) -> Self {
        let mut lists: Vec<Path> = self.all_paths().filter_map(Path::list).collect();
        lists.sort_by(|a, b| a.segments().cmp(b.segments()));
        lists.dedup();
        if !lists.is_empty() && !self.id.iter().any(|path| path.list().is_some()) {
            self.of = std::mem::replace(&mut self.id, vec![Path::keys(&[ELEMENT, "id"])]);
        }
        let of = || Choice::plain(Path::keys(&[ELEMENT, "of"]));
        match &mut self.group[..] {
            _ if lists.is_empty() || !is_own_group => {}
            [] => self.group.push(Field::of(of())),
            [field] => field.push(of()),
            _ => {}
        }
        self.lists = lists;
        self
    }

    /// Say whether the records are the values of an object: their names are their ids, unless they have others.
    #[must_use]
    pub fn with_names(mut self, is_named: bool) -> Self {
        self.is_named = is_named;
        let id = if self.lists.is_empty() { &mut self.id } else { &mut self.of };
        if is_named && id.is_empty() {
            id.push(Path::key("id"));
        }
        self
    }

    /// Say that the records are rows as they are: those of a stream were unfolded before they were kept.
    pub(crate) fn end_unfolding(&mut self) {
        (self.lists, self.is_named) = (Vec::new(), false);
    }

    /// Return whether a record is not its only row as it is.
    #[must_use]
    pub fn is_unfolded(&self) -> bool {
        self.is_named || !self.lists.is_empty()
    }

    /// Put the parts of a file's path, such as `file.parent`, in the places of the names made of them.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        let single = [&mut self.domain, &mut self.partition].into_iter().flatten();
        self.group.iter_mut().chain(single).for_each(|field| field.in_file(file));
        self
    }

    /// Return the parts of a file's path in the names of its records, once the file is known; `None` for one that its
    /// path does not have.
    #[must_use]
    pub fn file_parts(&self) -> Vec<Option<&str>> {
        let single = [&self.domain, &self.partition].into_iter().flatten();
        let choices = self.group.iter().chain(single).flat_map(Field::choices);
        choices.filter(|choice| choice.is_of_file()).map(|choice| choice.constant.as_deref()).collect()
    }

    /// Return the component of an outcome that each component of the reward is; `None` for any other number.
    #[must_use]
    pub fn outcomes(&self) -> Vec<Option<Component>> {
        self.reward.iter().map(|field| Component::at(&field.to_string())).collect()
    }

    /// Return each field as text, parts joined by commas; fields that the tool does not write are absent.
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
            ("system", one(&self.system)),
            ("tools", one(&self.tools)),
            ("prompt", one(&self.prompt)),
            ("completion", one(&self.completion)),
            ("text", one(&self.text)),
            ("domain", one(&self.domain)),
            ("partition", one(&self.partition)),
            ("order", one(&self.order)),
            ("failed", path(&self.failed)),
            ("truncated", path(&self.truncated)),
        ];
        all.into_iter().filter(|(_, path)| !path.is_empty()).collect()
    }

    /// Return the top-level keys of a record that the fields use.
    #[must_use]
    pub fn roots(&self) -> Vec<&str> {
        self.all_paths().map(Path::root).collect()
    }

    /// Return the path of every value in a record that the fields use.
    fn all_paths(&self) -> impl Iterator<Item = &Path> {
        let several = self.group.iter().chain(&self.reward);
        let single = [&self.domain, &self.partition, &self.messages, &self.tools, &self.prompt];
        let last = [&self.completion, &self.text, &self.order, &self.system];
        let fields = several.chain(single.into_iter().flatten()).chain(last.into_iter().flatten());
        let choices = fields.flat_map(Field::choices).filter(|choice| !choice.is_of_file());
        let plain = self.id.iter().chain(&self.failed).chain(&self.truncated);
        choices.map(|choice| &choice.path).chain(plain)
    }

    /// Return the fields that make up the trajectory, for the comparison of trajectories.
    pub fn trajectory(&self) -> impl Iterator<Item = &Field> {
        [&self.messages, &self.prompt, &self.completion, &self.text].into_iter().flatten()
    }

    /// Return whether an object with these top-level keys can be a record: it has a reward or a trajectory.
    pub(crate) fn fit(&self, keys: &[String]) -> bool {
        let telling = self.reward.iter().chain(self.trajectory()).flat_map(Field::choices);
        telling.into_iter().any(|choice| keys.iter().any(|key| key == choice.path.root()))
    }
}

/// Return the format's group with the number of its sidecar; empty if the number is unknown.
fn own_group(format: &Format, number: Option<u64>) -> String {
    match (format.sidecar, number) {
        (None, _) => format.group.to_owned(),
        (Some(sidecar), Some(number)) => format.group.replace(sidecar.number, &number.to_string()),
        (Some(_), None) => String::new(),
    }
}

/// Parse a part of an id. An id is used as it is in the record, so that a row can be found again by it.
fn id_part(text: &str) -> Result<Path> {
    let field = Field::name(text)?;
    match field.choices() {
        [Choice { path, transform: Transform::AsIs, .. }] => Ok(path.clone()),
        _ => Err(Error::Field { path: text.to_owned(), problem: "an id is made of plain paths" }),
    }
}

/// Parse comma-separated parts; none in an empty text.
fn all<T>(text: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    split_unquoted(text, ',').into_iter().map(|part| parse(part.trim())).collect()
}

fn optional<T>(text: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Option<T>> {
    (!text.is_empty()).then(|| parse(text)).transpose()
}

/// Component of an outcome. The manual's page `outcomes` says where each is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Verdict of a grader or benchmark.
    Verified,
    /// Pull request merged, or closed without merging.
    Merged,
    /// Share of the committed lines that still exist after a time.
    Survived,
    /// Commit reverted.
    Reverted,
    /// Work committed.
    Committed,
    /// Last run of tests after the last edit.
    Tests,
    /// Last build after the last edit.
    Build,
    /// Last run of a linter or type checker after the last edit.
    Lint,
    /// Share of the committed lines that the agent wrote.
    Attribution,
    /// Next turn of the user corrects the work.
    Corrected,
    /// User stopped the work, or refused a permission.
    Interrupted,
    /// Same request made again within a day.
    AskedAgain,
}

impl Component {
    /// Every component, in the order of records and reports.
    pub const ALL: [Self; 12] = [
        Self::Verified,
        Self::Merged,
        Self::Survived,
        Self::Reverted,
        Self::Committed,
        Self::Tests,
        Self::Build,
        Self::Lint,
        Self::Attribution,
        Self::Corrected,
        Self::Interrupted,
        Self::AskedAgain,
    ];

    /// Return the key in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Merged => "merged",
            Self::Survived => "survived",
            Self::Reverted => "reverted",
            Self::Committed => "committed",
            Self::Tests => "tests",
            Self::Build => "build",
            Self::Lint => "lint",
            Self::Attribution => "attribution",
            Self::Corrected => "corrected",
            Self::Interrupted => "interrupted",
            Self::AskedAgain => "asked_again",
        }
    }

    /// Return whether less of it is better: it enters a reward as 1 - x.
    #[must_use]
    pub const fn is_cost(self) -> bool {
        matches!(self, Self::Reverted | Self::Corrected | Self::Interrupted | Self::AskedAgain)
    }

    /// Return the component at a path of a record, `outcome.survived`.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        let name = path.strip_prefix("outcome.")?;
        Self::ALL.into_iter().find(|component| component.name() == name)
    }
}
