//! All families of secrets with a form of their own.

use super::commands::COMMANDS;
use super::family::Family;
use super::services::SERVICES;

/// Number of families.
pub(super) const COUNT: usize = SERVICES.len() + COMMANDS.len();

/// Families, the more specific ones first.
pub(super) static FAMILIES: [Family; COUNT] = {
    let mut all = [SERVICES[0]; COUNT];
    let mut at = 0;
    while at < COUNT {
        all[at] = if at < SERVICES.len() { SERVICES[at] } else { COMMANDS[at - SERVICES.len()] };
        at += 1;
    }
    all
};
