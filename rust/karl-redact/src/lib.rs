//! Replacement of secrets and of personal data in lines that are written.
//!
//! ```text
//! line ──► protection ──► secrets      keys of services, named values, private keys ──► a mark of their family
//!                    └──► pseudonyms   addresses, names of users and hosts          ──► a pseudonym under a key
//! ```
//!
//! A text that is JSON stays JSON. Nothing here depends on the other crates.

#![forbid(unsafe_code)]

pub mod protection;
pub mod pseudonyms;
pub mod secrets;

pub use protection::Protection;
pub use pseudonyms::Pseudonyms;
