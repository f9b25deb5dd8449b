//! Path of a value in a record.

use std::fmt;

use crate::error::{Error, Result};

/// Maximum length of a path in segments: the nesting limit of [`crate::json::reference_parser`].
const DEEPEST: usize = 127;

/// Dotted path into nested objects: `meta.group`; a dot inside a key is written `\.`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path(Vec<String>);

impl Path {
    /// Parse a dotted path.
    ///
    /// # Errors
    /// [`Error::Field`] for an empty path, an empty segment, or more segments than a record may have levels.
    pub fn parse(text: &str) -> Result<Self> {
        let mut segments = vec![String::new()];
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match (char, segments.last_mut()) {
                ('\\', Some(last)) if chars.next_if_eq(&'.').is_some() => last.push('.'),
                ('.', _) => segments.push(String::new()),
                (_, Some(last)) => last.push(char),
                (_, None) => {}
            }
        }
        if segments.iter().any(String::is_empty) {
            return Err(Error::Field { path: text.to_owned(), problem: "a segment is empty" });
        }
        if segments.len() > DEEPEST {
            return Err(Error::Field { path: text.to_owned(), problem: "it goes deeper than a record may" });
        }
        Ok(Self(segments))
    }

    /// Return the outermost key.
    pub(crate) fn root(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// Return the keys from the outermost to the innermost; never empty.
    #[must_use]
    pub fn segments(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped: Vec<String> = self.0.iter().map(|segment| segment.replace('.', "\\.")).collect();
        f.write_str(&escaped.join("."))
    }
}
