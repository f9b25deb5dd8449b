//! Binding of `karl_log::protection`.

use karl_log::protection::{Protection, Pseudonyms};

/// Key of pseudonyms, and the names of users and hosts that are replaced wherever they are.
pub(crate) type Names = ([u8; 16], Vec<String>, Vec<String>);

/// Return the protection of written lines.
pub(crate) fn protection(redact: bool, names: Option<Names>) -> Protection {
    let pseudonyms = names.map(|(key, users, hosts)| Pseudonyms::new(key, users, hosts));
    Protection { redact, pseudonyms }
}
