//! Binding of `karl_redact::protection`.

use karl_redact::{Protection, Pseudonyms};
use pyo3::prelude::*;

/// Key of pseudonyms, and the names of users and hosts that are replaced wherever they are.
pub(crate) type PseudonymNames = ([u8; 16], Vec<String>, Vec<String>);

/// Return the protection of written lines.
pub(crate) fn protection(redact: bool, names: Option<PseudonymNames>) -> Protection {
    Protection { redact, pseudonyms: names.map(pseudonyms_of) }
}

/// Return the replacement of personal data.
pub(crate) fn pseudonyms_of((key, users, hosts): PseudonymNames) -> Pseudonyms {
    Pseudonyms::new(key, users, hosts)
}

/// Return a text of JSON with its personal data replaced.
#[pyfunction]
pub(crate) fn pseudonymous(text: &str, names: PseudonymNames) -> String {
    pseudonyms_of(names).replaced(text).unwrap_or_else(|| text.to_owned())
}
