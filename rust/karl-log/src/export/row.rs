//! Conversion of one chosen record's bytes to one row's text.

use std::path::absolute;

use karl_core::rng::id128;
use karl_redact::secrets::{SecretCounts, redact};
use memchr::memmem;
use serde_json::{Map, Number, Value, json};

use super::forms::RowParts;
use super::partner::{Comparison, PartnerSearch};
use super::render::row;
use super::shape::Shape;
use super::{ExportSettings, Prepared, SelectionValues};
use crate::columns::Place;
use crate::conversation::{Example, Flaw, TrimmedExample, content_hash, example};
use crate::detect::FileLayout;
use crate::format::Fields;
use crate::input::codec::Codec;
use crate::input::source::Source;
use crate::json::duplicate_keys::has_duplicate_key;
use crate::json::reference_parser::{self, is_broken, lookup};
use crate::json::scalar::join_parts;
use crate::log::Log;

/// Minimum bytes of a record that is read again rather than held: fresh memory costs page faults, more than
/// copying cached bytes, but each read is a system call.
const LONG: u32 = 4096;

/// Record during the conversion to a row.
pub(super) struct ParsedRow {
    pub(super) row: u32,
    id: String,
    prompt: Option<u128>,
    session: Option<SessionKeys>,
    doubled: bool,
    pub(super) body: RowBody,
}

pub(super) enum RowBody {
    Raw(Vec<u8>),
    Example(TrimmedExample),
    /// Example, and the row of one of a lower reward with its example.
    Pair(TrimmedExample, u32, TrimmedExample),
}

/// Reason why two rows are not written as a pair.
pub(super) enum PairFlaw {
    /// Flaw of the chosen row.
    Chosen(Flaw),
    /// The other row makes no example.
    Rejected,
    /// Flaw of the two together.
    Both(Flaw),
}

/// Text of a row, with the changes made to it.
pub(super) struct RowText {
    /// Text; `None` if it is the unchanged record, which is read again.
    pub(super) text: Option<String>,
    pub(super) trimmed: u64,
    /// Number of messages whose reasoning the shape has no key for.
    pub(super) reasoning_left_out: u64,
    pub(super) secrets: SecretCounts,
    /// True if the row has a key for its tools.
    pub(super) tools: bool,
    /// Hash of its prompt, if needed.
    pub(super) prompt: Option<u128>,
    /// Session that it belongs to, if needed.
    pub(super) session: Option<SessionKeys>,
    /// True if the record has a key twice in one object; the last one counts.
    pub(super) doubled: bool,
    /// Hash of what is learned, as records are compared; of a record that stays unchanged, of its bytes. `None` of
    /// one that is read again.
    pub(super) content: Option<u128>,
}

/// Hashes of the names by which a trajectory belongs to a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionKeys {
    /// Session.
    pub(super) root: u128,
    /// Trajectory itself, which may be the parent of others.
    pub(super) own: u128,
    /// Parent of a sub-agent.
    pub(super) parent: Option<u128>,
}

impl SessionKeys {
    /// Return the keys of a canonical trajectory that names its session or its parent.
    fn of(record: &Value) -> Option<Self> {
        record.get(MARK)?;
        let key = |path: &str| record.pointer(path)?.as_str().map(|name| id128(name.as_bytes()));
        let parent = key("/parent/id");
        let root = key("/session").or_else(|| key("/source/session_id")).or(parent)?;
        Some(Self { root, own: key("/id")?, parent })
    }
}

/// Key that marks a canonical trajectory.
const MARK: &str = "karl_fast_trajectory";

impl RowText {
    /// Return the line of a record that is copied unchanged.
    pub(super) fn unchanged() -> Self {
        let secrets = SecretCounts::new();
        Self {
            text: None,
            trimmed: 0,
            reasoning_left_out: 0,
            secrets,
            tools: false,
            prompt: None,
            session: None,
            doubled: false,
            content: None,
        }
    }

    /// Return the row with null for its tools, which means none: all rows of one file have the same keys.
    pub(super) fn without_tools(text: &str) -> String {
        // Quotes inside a JSON string are escaped, so the last such key is the row's own.
        match text.rfind(STAMP) {
            Some(at) => format!("{}\"tools\":null,{}", &text[..at], &text[at..]),
            None => text.to_owned(),
        }
    }

    /// Write the number of copies into the stamp of a row. A raw row has no stamp, or one of another draw.
    pub(super) fn say_copies(text: &mut String, copies: u32) {
        let stamp = text.trim_end_matches('}').len();
        if copies != 1 && text[..stamp].ends_with(ONE_COPY) {
            let end = text.split_off(stamp);
            text.truncate(stamp - 1);
            text.push_str(&copies.to_string());
            text.push_str(&end);
        }
    }
}

/// End of the stamp of a row that was drawn once, without the ends of objects.
const ONE_COPY: &str = "\"copies\":1";

/// Start of a row's last field.
const STAMP: &str = "\"karl_fast\":{";

/// Converter of records to rows.
pub(super) struct RowMaker<'a> {
    pub(super) log: &'a Log,
    pub(super) facts: SelectionValues<'a>,
    pub(super) settings: ExportSettings<'a>,
    /// True for each file that can be read again cheaply. The copy of a pipe is removed with the log, and a
    /// packed file would have to be unpacked again.
    lasts: Vec<bool>,
    /// Rewards of the log, as far as the shape compares them.
    pub(super) comparison: Comparison,
}

impl<'a> RowMaker<'a> {
    pub(super) fn new(log: &'a Log, facts: SelectionValues<'a>, settings: ExportSettings<'a>) -> Self {
        let lasts = |Source { name, path, codec, .. }: &Source| {
            *codec == Codec::Plain && absolute(name).is_ok_and(|named| named == *path)
        };
        let lasts = log.inputs.iter().map(|input| lasts(&input.source)).collect();
        let comparison = Comparison::new(log, &facts, settings.shape);
        Self { log, facts, settings, lasts, comparison }
    }

    /// Return the search for the row whose answer is rejected in favour of another's.
    pub(super) fn search(&self, row: u32) -> PartnerSearch {
        self.comparison.search(self.log, self.facts.rewards, row)
    }

    /// Parse the record, as far as this does not depend on the shape of the others.
    pub(super) fn parse(&self, row: u32, bytes: Vec<u8>) -> Result<ParsedRow, Flaw> {
        if self.settings.shape == Shape::Raw {
            // A record that stays unchanged need not be built.
            let check = if self.settings.protects() { Ok(()) } else { reference_parser::check(&bytes) };
            check.map_err(|_| Flaw::Unparsable)?;
            let prompt = || content_hash::prompt(&bytes, self.fields(row), self.settings.allow_secrets);
            let prompt = self.needs_prompt(row).then(prompt);
            let is_trajectory = self.settings.dealt && memmem::find(&bytes, MARK.as_bytes()).is_some();
            let record = || reference_parser::parse(&bytes).ok();
            let session = is_trajectory.then(record).flatten().as_ref().and_then(SessionKeys::of);
            let (id, body) = (String::new(), RowBody::Raw(bytes));
            return Ok(ParsedRow { row, id, prompt, session, doubled: false, body });
        }
        let record = reference_parser::parse_rollout(&bytes).map_err(|_| Flaw::Unparsable)?;
        let id = self.id(row, &record);
        let session = if self.settings.dealt { SessionKeys::of(&record) } else { None };
        let doubled = has_duplicate_key(&bytes) || has_doubled_arguments(&record);
        let read = example(record, self.fields(row))?;
        let prompt = || content_hash::prompt_of(&read.example, self.settings.allow_secrets);
        let prompt = self.needs_prompt(row).then(prompt);
        Ok(ParsedRow { row, id, prompt, session, doubled, body: RowBody::Example(read) })
    }

    /// Return a pair of two rows, of which the other one is rejected.
    pub(super) fn pair(
        &self,
        row: u32,
        bytes: Vec<u8>,
        (other, record): (u32, &[u8]),
    ) -> Result<RowText, PairFlaw> {
        let parsed = self.parse(row, bytes).map_err(PairFlaw::Chosen)?;
        let RowBody::Example(chosen) = parsed.body else { return Err(PairFlaw::Chosen(Flaw::OtherShape)) };
        if let Example::Text(_) = chosen.example {
            return Err(PairFlaw::Chosen(Flaw::OtherShape));
        }
        let rejected = self.conversation(other, record).ok_or(PairFlaw::Rejected)?;
        let parsed = ParsedRow { body: RowBody::Pair(chosen, other, rejected), ..parsed };
        self.line(parsed, Shape::Preference).map_err(PairFlaw::Both)
    }

    /// Return the example of a row, if it is a conversation.
    fn conversation(&self, row: u32, record: &[u8]) -> Option<TrimmedExample> {
        let record = reference_parser::parse_rollout(record).ok()?;
        example(record, self.fields(row)).ok().filter(|read| !matches!(read.example, Example::Text(_)))
    }

    /// Return the row in the shape of its data set.
    pub(super) fn line(&self, candidate: ParsedRow, shape: Shape) -> Result<RowText, Flaw> {
        let mut secrets = SecretCounts::new();
        let (prompt, session, doubled) = (candidate.prompt, candidate.session, candidate.doubled);
        let (read, rejected) = match candidate.body {
            RowBody::Raw(bytes) => {
                let text = self.raw(candidate.row, bytes, &mut secrets)?;
                let content = text.as_ref().map(|text| id128(text.as_bytes()));
                let unchanged = RowText::unchanged();
                return Ok(RowText { text, secrets, prompt, session, doubled, content, ..unchanged });
            }
            RowBody::Example(read) => (read, None),
            RowBody::Pair(read, other, rejected) => (read, Some((other, rejected))),
        };
        let (other, rejected) = rejected.unzip();
        let content = Some(content_hash::hash(&read.example));
        let trimmed = (read.trimmed + rejected.as_ref().map_or(0, |rejected| rejected.trimmed)) as u64;
        let label = self.comparison.label(self.facts.rewards[candidate.row as usize]);
        let parts = RowParts { example: read.example, rejected: rejected.map(|read| read.example), label };
        let form = row(parts, shape)?;
        let tools = form.fields.contains_key("tools");
        let text = self.clean(to_line(&form.fields)?, &mut secrets);
        // A secret in an id is not a secret of the training text: replaced, not counted.
        let stamp = self
            .clean(self.stamp_text(&candidate.id, candidate.row, other, shape)?, &mut SecretCounts::new());
        let text = Some(self.pseudonymous(append_stamp(&text, &stamp)));
        let reasoning_left_out = form.reasoning_left_out;
        Ok(RowText { text, trimmed, reasoning_left_out, secrets, tools, prompt, session, doubled, content })
    }

    /// Return the object with the metadata of a row, and of the one that is rejected in its favour, under its key and in
    /// the object that holds it.
    fn stamp_text(&self, id: &str, row: u32, other: Option<u32>, shape: Shape) -> Result<String, Flaw> {
        let rejected = other.map(|other| {
            let reward = number(self.facts.rewards[other as usize]);
            ("rejected".to_owned(), json!({"key": self.name(other), "reward": reward}))
        });
        let stamp = rejected.into_iter().chain(self.stamp(row, id)).collect();
        let stamp = Map::from_iter([("karl_fast".to_owned(), Value::Object(stamp))]);
        match shape.stamp_holder() {
            "" => to_line(&stamp),
            holder => to_line(&Map::from_iter([(holder.to_owned(), Value::Object(stamp))])),
        }
    }

    /// Return the hash by which a row is known, as 32 digits.
    fn name(&self, row: u32) -> String {
        format!("{:032x}", self.log.keys.get(row as usize).id)
    }

    /// Return the record's own bytes on one line; rewritten only if it has a line break, a secret or personal
    /// data. A secret may also be under a duplicate key that a later one overrides.
    fn raw(&self, row: u32, bytes: Vec<u8>, secrets: &mut SecretCounts) -> Result<Option<String>, Flaw> {
        let broken = is_broken(&bytes);
        let safe = !self.settings.protects() && !broken;
        if safe && self.is_read_again(row) {
            return Ok(None);
        }
        let text = String::from_utf8(bytes).map_err(|_| Flaw::Unparsable)?;
        if safe {
            return Ok(Some(text));
        }
        let Ok(Value::Object(fields)) = reference_parser::parse_exact(text.as_bytes()) else {
            return Err(Flaw::Unparsable);
        };
        let private = self.is_private(&text);
        if private && fields.iter().any(|(key, value)| is_tokens(key, value)) {
            return Err(Flaw::PrivateTokens);
        }
        if private || broken {
            return to_line(&fields).map(|text| Some(self.pseudonymous(self.clean(text, secrets))));
        }
        Ok((!self.is_read_again(row)).then_some(text))
    }

    /// Return whether something in a record is replaced.
    fn is_private(&self, text: &str) -> bool {
        let secret = || !self.settings.allow_secrets && redact(text, &mut SecretCounts::new()).is_some();
        let personal = || self.settings.pseudonyms.is_some_and(|names| names.replaced(text).is_some());
        secret() || personal()
    }

    /// Return whether a record that is copied unchanged is read again.
    pub(super) fn is_read_again(&self, row: u32) -> bool {
        let is_whole = |place: Place| !self.log.inputs[place.input].fields.is_unfolded();
        let long = |place: Place| place.length >= LONG && self.lasts[place.input] && is_whole(place);
        self.settings.prepared != Prepared::Held && self.log.place(row).is_some_and(long)
    }

    /// Return whether a record can be left unread until it is written; a record of a document usually spans
    /// lines.
    pub(super) fn is_left(&self, row: u32) -> bool {
        let line = |place: Place| self.log.inputs[place.input].layout == FileLayout::Lines;
        self.is_read_again(row)
            && !self.needs_prompt(row)
            && !self.needs_session(row)
            && self.log.place(row).is_some_and(line)
    }

    /// Return whether a row's split depends on its session.
    fn needs_session(&self, row: u32) -> bool {
        let is_trajectory = |place: Place| self.log.inputs[place.input].keys.iter().any(|key| key == MARK);
        self.settings.dealt && self.log.place(row).is_none_or(is_trajectory)
    }

    /// Return whether a row's split depends on its prompt.
    fn needs_prompt(&self, row: u32) -> bool {
        self.settings.dealt && self.log.group.name(row as usize).is_none()
    }

    fn clean(&self, text: String, secrets: &mut SecretCounts) -> String {
        if self.settings.allow_secrets {
            return text;
        }
        redact(&text, secrets).unwrap_or(text)
    }

    fn pseudonymous(&self, text: String) -> String {
        self.settings.pseudonyms.and_then(|names| names.replaced(&text)).unwrap_or(text)
    }

    /// Return the metadata of a row; trainers ignore it, and it has no training text.
    fn stamp(&self, row: u32, id: &str) -> Map<String, Value> {
        let at = row as usize;
        let domain = self.log.domain.name(at).map(|domain| ("domain", json!(domain)));
        let names = [("id", json!(id)), ("group", json!(self.log.group.name(at)))];
        let numbers = [
            ("reward", number(self.facts.rewards[at])),
            ("score", number(self.facts.scores[at])),
            ("log_weight", number((self.facts.log_weight)(at))),
            ("copies", json!(1)),
        ];
        let stamp = names.into_iter().chain(domain).chain(numbers);
        stamp.map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn id(&self, row: u32, record: &Value) -> String {
        let part = |path| {
            lookup(record, path)
                .filter(|part| !part.is_null())
                .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
        };
        let parts: Option<Vec<String>> = self.fields(row).id.iter().map(part).collect();
        parts.and_then(join_parts).unwrap_or_else(|| self.name(row))
    }

    fn fields(&self, row: u32) -> &Fields {
        self.log.fields(row)
    }
}

/// Keys of the tokens of a text, as trainers write them.
const TOKENS: [&str; 10] = [
    "tokens",
    "token_ids",
    "prompt_ids",
    "completion_ids",
    "response_ids",
    "input_ids",
    "output_ids",
    "prompt_token_ids",
    "completion_token_ids",
    "response_token_ids",
];

/// Return whether a value holds the tokens of a text, from which it can be read again: a list of numbers, or
/// the text `ids` of a log of rollouts.
fn is_tokens(key: &str, value: &Value) -> bool {
    match value {
        Value::Array(items) => {
            (TOKENS.contains(&key) && items.iter().any(Value::is_u64))
                || items.iter().any(|item| is_tokens(key, item))
        }
        Value::Object(fields) => {
            (key == "tokens" && fields.get("ids").is_some_and(Value::is_string))
                || fields.iter().any(|(key, value)| is_tokens(key, value))
        }
        _ => false,
    }
}

/// Return whether the JSON text of some arguments has a key twice in one object.
fn has_doubled_arguments(value: &Value) -> bool {
    let is_doubled = |(key, value): (&String, &Value)| match value {
        Value::String(text) => key == "arguments" && has_duplicate_key(text.as_bytes()),
        value => has_doubled_arguments(value),
    };
    match value {
        Value::Array(values) => values.iter().any(has_doubled_arguments),
        Value::Object(fields) => fields.iter().any(is_doubled),
        _ => false,
    }
}

/// Merge two objects, both with fields.
fn append_stamp(text: &str, stamp: &str) -> String {
    let comma = if text.len() > "{}".len() { "," } else { "" };
    [&text[..text.len() - 1], comma, &stamp[1..]].concat()
}

/// Return a row as JSON text, which every parsed row has.
fn to_line(fields: &Map<String, Value>) -> Result<String, Flaw> {
    serde_json::to_string(fields).map_err(|_| Flaw::Unparsable)
}

/// Return a number as JSON; null if it is not finite.
fn number(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
