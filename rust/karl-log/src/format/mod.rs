//! Presets: where the logs of known tools keep a record's id, group, reward and conversation.
//!
//! One file a format, each a constant; a format is told by the keys of a record. [`generic`] stands last: it fits
//! every record and takes the fields that carry their own names.

pub mod generic;
pub mod tau_bench;

use crate::error::Result;
use crate::field::Path;

/// Where one tool keeps things. Every entry is a dotted path; an empty one means that the tool keeps no such thing.
#[derive(Debug)]
pub struct Format {
    /// The name by which it is asked for and reported.
    pub name: &'static str,
    /// What it reads, in one line.
    pub about: &'static str,
    /// Top-level keys that every record of this tool has, and together only its records.
    pub signature: &'static [&'static str],
    /// The parts of a record's id, joined by `/`.
    pub id: &'static str,
    /// The prompt or task that records share.
    pub group: &'static str,
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
}

/// All formats, the one that fits everything last.
pub const FORMATS: [&Format; 2] = [&tau_bench::TAU_BENCH, &generic::GENERIC];

/// The format of that name; `_` and `-`, upper and lower case are the same.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Format> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    FORMATS.into_iter().find(|format| format.name == name)
}

/// The first format whose signature these top-level keys hold.
#[must_use]
pub fn by_keys(keys: &[String]) -> &'static Format {
    let fits = |format: &&Format| format.signature.iter().all(|wanted| keys.iter().any(|key| key == wanted));
    FORMATS.into_iter().find(fits).unwrap_or(&generic::GENERIC)
}

/// What a caller wants taken from elsewhere than the format says.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Instead of the format's id: paths separated by commas.
    pub id: Option<String>,
    /// Instead of the format's group.
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
    /// The group.
    pub group: Option<Path>,
    /// The components of the reward.
    pub reward: Vec<Path>,
    /// The category for reports.
    pub domain: Option<Path>,
    /// The category that log Z is taken over.
    pub partition: Option<Path>,
    /// The conversation.
    pub messages: Option<Path>,
    /// The tools.
    pub tools: Option<Path>,
    /// The prompt.
    pub prompt: Option<Path>,
    /// The completion.
    pub completion: Option<Path>,
    /// The text.
    pub text: Option<Path>,
}

impl Fields {
    /// A format's fields with the caller's wishes over them.
    ///
    /// # Errors
    /// [`crate::Error::Field`] for a path that means nothing.
    pub fn new(format: &Format, overrides: &Overrides) -> Result<Self> {
        let one = |wish: &Option<String>, own: &str| optional(wish.as_deref().unwrap_or(own));
        let all = |paths: &mut dyn Iterator<Item = &str>| paths.map(Path::parse).collect::<Result<Vec<_>>>();
        let id = overrides.id.as_deref().unwrap_or(format.id);
        Ok(Self {
            id: all(&mut id.split(',').map(str::trim))?,
            group: one(&overrides.group, format.group)?,
            reward: match &overrides.reward {
                Some(paths) => all(&mut paths.iter().map(String::as_str))?,
                None => vec![Path::parse(format.reward)?],
            },
            domain: one(&overrides.domain, format.domain)?,
            partition: one(&overrides.partition, "")?,
            messages: one(&overrides.messages, format.messages)?,
            tools: optional(format.tools)?,
            prompt: optional(format.prompt)?,
            completion: optional(format.completion)?,
            text: optional(format.text)?,
        })
    }

    /// Each field with its paths joined by commas; those that the tool does not keep are absent.
    #[must_use]
    pub fn paths(&self) -> Vec<(&'static str, String)> {
        let join = |paths: &[Path]| paths.iter().map(Path::to_string).collect::<Vec<_>>().join(",");
        let one = |path: &Option<Path>| path.as_ref().map_or_else(String::new, Path::to_string);
        let all = [
            ("id", join(&self.id)),
            ("group", one(&self.group)),
            ("reward", join(&self.reward)),
            ("messages", one(&self.messages)),
            ("tools", one(&self.tools)),
            ("prompt", one(&self.prompt)),
            ("completion", one(&self.completion)),
            ("text", one(&self.text)),
            ("domain", one(&self.domain)),
            ("partition", one(&self.partition)),
        ];
        all.into_iter().filter(|(_, path)| !path.is_empty()).collect()
    }

    /// The paths that together are the trajectory, for telling identical ones.
    pub(crate) fn trajectory(&self) -> impl Iterator<Item = &Path> {
        [&self.messages, &self.prompt, &self.completion, &self.text].into_iter().flatten()
    }

    /// Whether an object with these top-level keys can be a record: it has a reward or a trajectory.
    pub(crate) fn fit(&self, keys: &[String]) -> bool {
        let telling = self.reward.iter().chain(self.trajectory());
        telling.into_iter().any(|path| keys.contains(&path.segments()[0]))
    }
}

fn optional(path: &str) -> Result<Option<Path>> {
    (!path.is_empty()).then(|| Path::parse(path)).transpose()
}
