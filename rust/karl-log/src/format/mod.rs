//! Presets: fields of id, group, reward and conversation in the logs of known tools.
//!
//! Each format is a constant in a file of its own, detected by the keys of a record. [`generic`] is last: it
//! matches every record and uses plain field names. [`expr`] is the language of their entries.

pub mod component;
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

pub use component::Component;
pub use expr::{Choice, Field, Transform};
pub use fields::{Fields, Overrides};
pub use preset::{Format, Sidecar};

/// All formats, the generic one last.
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

/// Return the format of that name, ignoring case; `_` and `-` are equal.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Format> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    FORMATS.into_iter().find(|format| format.name == name)
}

/// Return the first format with a signature among these top-level keys.
#[must_use]
pub fn by_keys(keys: &[String]) -> &'static Format {
    claimed_by(&|wanted| keys.iter().any(|key| key == wanted)).unwrap_or(&generic::GENERIC)
}

/// Return the first format with a signature among the keys for which `has` is true.
pub(crate) fn claimed_by(has: &dyn Fn(&str) -> bool) -> Option<&'static Format> {
    let claims = |signature: &&[&str]| signature.iter().all(|key| has(key));
    FORMATS.into_iter().find(|format| format.signatures.iter().any(claims))
}
