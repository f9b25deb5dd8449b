//! Protection of lines that are written: secrets and personal data are replaced.

use crate::pseudonyms::Pseudonyms;
use crate::secrets::{SecretCounts, redact};

/// What is replaced in written lines.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    /// True to replace secrets.
    pub redact: bool,
    /// Replacement of personal data.
    pub pseudonyms: Option<Pseudonyms>,
}

impl Protection {
    /// Return lines of JSON with their secrets, which are counted, and personal data replaced. A line stays a
    /// line, and JSON.
    #[must_use]
    pub fn applied(&self, lines: Vec<u8>, secrets: &mut SecretCounts) -> Vec<u8> {
        if !self.redact && self.pseudonyms.is_none() {
            return lines;
        }
        let mut found = Vec::with_capacity(lines.len());
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            match std::str::from_utf8(line) {
                Ok(text) => found.extend_from_slice(self.text(text, secrets).as_bytes()),
                Err(_) => found.extend_from_slice(line), // every written line is UTF-8
            }
        }
        found
    }

    fn text(&self, text: &str, secrets: &mut SecretCounts) -> String {
        let secrets = if self.redact { redact(text, secrets) } else { None };
        let clean = secrets.as_deref().unwrap_or(text);
        let personal = self.pseudonyms.as_ref().and_then(|names| names.replaced(clean));
        personal.or(secrets).unwrap_or_else(|| text.to_owned())
    }
}
