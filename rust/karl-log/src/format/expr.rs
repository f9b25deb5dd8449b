//! Field expressions: path of a value in a record, and conversion of the value.
//!
//! ```text
//! field  = choice { "|" choice }                            the first that holds something
//! choice = path | path//8 | hash(path) | json(path) | plan(path) | question(path) | answer(path)
//!        | grade(path) | sum(path) | file.name | file.parent | file(REGEX)
//! ```
//!
//! The last three are of the file that holds a record: they are texts as soon as the file is known.

use std::fmt;
use std::num::NonZeroU64;
use std::path;
use std::sync::Arc;

use regex_lite::Regex;

use crate::error::{Error, Result};
use crate::json::project::Path;

/// Value of a record: the first non-empty one of some choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field(Vec<Choice>);

/// Path with the conversion of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Path of the value.
    pub path: Path,
    /// Conversion of the value.
    pub transform: Transform,
    /// Text that takes the place of the value; `None` until the file is known, and for values of a record.
    pub constant: Option<Arc<str>>,
}

/// Conversion of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// None: the value itself.
    AsIs,
    /// Quotient of an integer, rounded down: `sample_id//8`.
    Quotient(NonZeroU64),
    /// XXH3-128 of its text, independent of escapes: `hash(prompt)`.
    Hash,
    /// Value parsed from its JSON text: `json(prompt)`.
    Json,
    /// Numbered list of tool calls: `plan(events)`.
    Plan,
    /// Text of the turn before the last one: `question(turns)`.
    Question,
    /// Text of the last turn, if it is the model's: `answer(turns)`.
    Answer,
    /// Number of a grade of Inspect: `grade(scores.match.value)`.
    Grade,
    /// Number, or the sum of a list of them: `sum(token_rewards)`.
    Sum,
    /// Name of the file, without what is behind its first dot: `file.name`.
    FileName,
    /// Name of the folder of the file: `file.parent`.
    FileParent,
    /// First group of a regular expression, or all that it matches, in the path of the file: `file(step_(\d+))`.
    FileMatch,
}

const WRAPPED: [(&str, Transform); 7] = [
    ("hash(", Transform::Hash),
    ("json(", Transform::Json),
    ("plan(", Transform::Plan),
    ("question(", Transform::Question),
    ("answer(", Transform::Answer),
    ("grade(", Transform::Grade),
    ("sum(", Transform::Sum),
];

impl Field {
    /// Parse the field of a name: a group or a category.
    ///
    /// # Errors
    /// [`Error::Field`] for an invalid field, or one that does not yield a name.
    pub fn name(text: &str) -> Result<Self> {
        let fits = |transform| {
            use Transform::{Answer, Grade, Json, Plan, Question, Sum};
            !matches!(transform, Json | Plan | Question | Answer | Grade | Sum)
        };
        Self::parse(
            text,
            fits,
            "a name is made by hash(path), path//number and parts of the file's path only",
        )
    }

    /// Parse the field of a part of a trajectory.
    ///
    /// # Errors
    /// [`Error::Field`] for an invalid field, or one that does not yield such a part.
    pub fn value(text: &str) -> Result<Self> {
        let fits = |transform| {
            use Transform::{Answer, AsIs, Json, Plan, Question};
            matches!(transform, AsIs | Json | Plan | Question | Answer)
        };
        let problem =
            "a part of a trajectory is made by json(path), plan(path), question(path) and answer(path) only";
        Self::parse(text, fits, problem)
    }

    /// Parse the field of a number.
    ///
    /// # Errors
    /// [`Error::Field`] for an invalid field, or one with a conversion.
    pub fn number(text: &str) -> Result<Self> {
        let fits = |transform| matches!(transform, Transform::AsIs | Transform::Grade | Transform::Sum);
        Self::parse(text, fits, "a number is taken as it is, or made by grade(path) or sum(path)")
    }

    fn parse(text: &str, fits: impl Fn(Transform) -> bool, problem: &'static str) -> Result<Self> {
        let choices = split_unquoted(text, '|').into_iter().map(Choice::parse).collect::<Result<Vec<_>>>()?;
        if choices.iter().all(|choice| fits(choice.transform)) {
            return Ok(Self(choices));
        }
        Err(Error::Field { path: text.to_owned(), problem })
    }

    /// Return the field of a single choice.
    pub(super) fn of(choice: Choice) -> Self {
        Self(vec![choice])
    }

    /// Add a choice, taken where no other holds anything.
    pub(super) fn push(&mut self, choice: Choice) {
        self.0.push(choice);
    }

    /// Put the parts of a file's path in their places.
    pub(super) fn in_file(&mut self, file: &str) {
        self.0.iter_mut().for_each(|choice| choice.constant = choice.part_of(file).map(Arc::from));
    }

    /// Return the choices, the preferred one first; never empty.
    #[must_use]
    pub fn choices(&self) -> &[Choice] {
        &self.0
    }
}

/// Return whether a name of a file is the address of an object: `s3://..`.
fn is_url(name: &str) -> bool {
    let in_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+.-".contains(letter);
    name.split_once("://").is_some_and(|(scheme, _)| scheme.len() > 1 && scheme.chars().all(in_scheme))
}

/// Split a text at a sign outside of quotation marks.
pub(super) fn split_unquoted(text: &str, sign: char) -> Vec<&str> {
    let (mut parts, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            char if char == sign && !is_quoted => {
                parts.push(&text[start..at]);
                start = at + char.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

impl Choice {
    /// Return a path without conversion.
    pub(super) fn plain(path: Path) -> Self {
        Self { path, transform: Transform::AsIs, constant: None }
    }

    fn parse(text: &str) -> Result<Self> {
        let wrong = |problem| Error::Field { path: text.to_owned(), problem };
        if let Some(choice) = Self::of_file(text)? {
            return Ok(choice);
        }
        for (head, transform) in WRAPPED {
            if let Some(rest) = text.strip_prefix(head) {
                let path = rest.strip_suffix(')').ok_or_else(|| wrong("the bracket is not closed"))?;
                return Ok(Self { path: Path::parse(path)?, transform, constant: None });
            }
        }
        let Some((path, by)) = text.split_once("//") else {
            return Ok(Self::plain(Path::parse(text)?));
        };
        let by = by.parse().map_err(|_| wrong("after // stands a whole number from 1 on"))?;
        Ok(Self { path: Path::parse(path)?, transform: Transform::Quotient(by), constant: None })
    }

    /// Parse a part of the path of a file; `None` for a path in a record. A key that is named so is written in
    /// quotation marks: `"file".name`.
    fn of_file(text: &str) -> Result<Option<Self>> {
        let of = |path, transform| Ok(Some(Self { path, transform, constant: None }));
        match text {
            "file.name" => return of(Path::key("file.name"), Transform::FileName),
            "file.parent" => return of(Path::key("file.parent"), Transform::FileParent),
            _ => {}
        }
        let wrong = |problem| Error::Field { path: text.to_owned(), problem };
        let Some(rest) = text.strip_prefix("file(") else { return Ok(None) };
        let pattern = rest.strip_suffix(')').ok_or_else(|| wrong("the bracket is not closed"))?;
        let pattern = pattern.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(pattern);
        Regex::new(pattern).map_err(|_| wrong("what is in the brackets is not a regular expression"))?;
        of(Path::key(pattern), Transform::FileMatch)
    }

    /// Return the part of a file's path that this is; `None` if it is a value of a record, or if nothing matches.
    fn part_of(&self, file: &str) -> Option<String> {
        // An object of a store is in no folder of this machine.
        let place = path::absolute(file).ok().filter(|_| !is_url(file)).unwrap_or_else(|| file.into());
        let name = |part: Option<&std::ffi::OsStr>| Some(part?.to_str()?.to_owned());
        match self.transform {
            Transform::FileName => {
                name(place.file_name()).map(|name| name.split('.').next().unwrap_or_default().to_owned())
            }
            Transform::FileParent => name(place.parent()?.file_name()),
            Transform::FileMatch => {
                let pattern = Regex::new(self.path.root()).ok()?;
                let groups = pattern.captures(place.to_str()?)?;
                groups.get(1).or_else(|| groups.get(0)).map(|part| part.as_str().to_owned())
            }
            _ => None,
        }
    }

    /// Return whether this is a part of the path of a file.
    pub(crate) fn is_of_file(&self) -> bool {
        matches!(self.transform, Transform::FileName | Transform::FileParent | Transform::FileMatch)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices: Vec<String> = self.0.iter().map(Choice::to_string).collect();
        f.write_str(&choices.join("|"))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transform {
            Transform::AsIs => self.path.fmt(f),
            Transform::Quotient(by) => write!(f, "{}//{by}", self.path),
            Transform::Hash => write!(f, "hash({})", self.path),
            Transform::Json => write!(f, "json({})", self.path),
            Transform::Plan => write!(f, "plan({})", self.path),
            Transform::Question => write!(f, "question({})", self.path),
            Transform::Answer => write!(f, "answer({})", self.path),
            Transform::Grade => write!(f, "grade({})", self.path),
            Transform::Sum => write!(f, "sum({})", self.path),
            Transform::FileName => f.write_str("file.name"),
            Transform::FileParent => f.write_str("file.parent"),
            Transform::FileMatch => write!(f, "file(\"{}\")", self.path.root()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_path_of_a_file_are_texts_once_it_is_known() {
        let part = |field: &str| {
            let mut field = Field::name(field).unwrap();
            field.in_file("/jobs/task-7__abc/agent/step_12.jsonl.gz");
            field.choices()[0].constant.as_deref().map(str::to_owned)
        };
        assert_eq!(part("file.name").as_deref(), Some("step_12"));
        assert_eq!(part("file.parent").as_deref(), Some("agent"));
        assert_eq!(part(r"file(/([^/]+)__)").as_deref(), Some("task-7"));
        assert_eq!(part(r#"file("step_\d{1,3}|none")"#).as_deref(), Some("step_12"));
        assert_eq!(part("file(absent)"), None);
        assert_eq!(part("\"file\".name"), None);
        assert!(matches!(Field::name("file(()"), Err(Error::Field { .. })));
        assert!(matches!(Field::value("file.name"), Err(Error::Field { .. })));
    }

    #[test]
    fn the_path_of_an_object_of_a_store_is_its_address() {
        let part = |field: &str| {
            let mut field = Field::name(field).unwrap();
            field.in_file("s3://logs/a/x.jsonl");
            field.choices()[0].constant.as_deref().map(str::to_owned)
        };
        assert_eq!(part("file(s3://logs/([^/]+)/)").as_deref(), Some("a"));
        assert_eq!(part("file(^s3://([^/]+)/)").as_deref(), Some("logs"));
        assert_eq!(part("file.parent").as_deref(), Some("a"));
        assert_eq!(part("file.name").as_deref(), Some("x"));
    }

    #[test]
    fn a_field_reads_as_it_is_written() {
        for text in
            ["a", "a.b", "a\\.b|c", "hash(a.b)", "sample_id//8", "a|hash(b)|c//3", "hash(a[].b)", "\"a[]\""]
        {
            assert_eq!(Field::name(text).unwrap().to_string(), text);
        }
        for text in ["json(a)", "a.b|plan(c)", "question(a.b)", "answer(a)"] {
            assert_eq!(Field::value(text).unwrap().to_string(), text);
        }
        for text in ["a", "grade(a.b)", "sum(a)|b"] {
            assert_eq!(Field::number(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for text in
            ["", "a|", "hash(a", "hash()", "a//0", "a//-1", "a//b", "a//", "//8", "json(a)", "plan(a)"]
        {
            assert!(Field::name(text).is_err(), "{text}");
        }
        for text in ["hash(a)", "a//8"] {
            assert!(Field::value(text).is_err() && Field::number(text).is_err(), "{text}");
        }
    }
}
