//! Presets: where the logs of known tools keep a record's id, group, reward and conversation.
//!
//! One file a format, each a constant; a format is told by the keys of a record. [`generic`] stands last: it fits
//! every record and takes the fields that carry their own names. [`expr`] is the language of their entries.

pub mod expr;
mod fields;
pub mod generic;
pub mod karl;
mod preset;
pub mod prime_rl;
pub mod tau_bench;
pub mod trajectory;
pub mod trl;
pub mod verifiers;
pub mod verl;

pub use expr::{Choice, Field, Made};
pub use fields::{Fields, Overrides};
pub use preset::{Format, Sidecar};

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
