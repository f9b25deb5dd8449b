//! Lists of passwords, tokens and keys: `passwords = ["...", "..."]`, and items of YAML below their name.

use super::cursor::{Cursor, closing};
use super::named::{family, literal};
use super::secret::{RANK, Secret};
use super::unquoted_end::plain;

/// Maximum number of items.
const MOST: usize = 1000;

/// Find the secrets in the list that begins at a position; return whether there is one.
pub(super) fn secrets(at: &Cursor<'_>, name: &str, found: &mut Vec<Secret>) -> bool {
    let mut cursor = Cursor { text: at.text, at: at.at };
    cursor.space();
    if cursor.rest().starts_with(['[', '(', '{']) {
        cursor.at += 1;
        return bracketed(cursor, name, found);
    }
    let begins = cursor.rest().starts_with('\n') || cursor.rest().starts_with("\\n");
    begins && dashed(cursor, name, found)
}

/// Find those between brackets; return whether the first item is in quotes.
fn bracketed(mut cursor: Cursor<'_>, name: &str, found: &mut Vec<Secret>) -> bool {
    for item in 0..MOST {
        skip_gap(&mut cursor);
        let Some(quote) = cursor.quote() else { return item > 0 };
        let Some(length) = closing(cursor.rest(), quote) else { return item > 0 };
        let value = plain(&cursor.rest()[..length]);
        found.extend(
            literal(name, &value).map(|family| Secret::new(cursor.at, cursor.at + length, family, RANK)),
        );
        cursor.at += length + quote.len();
    }
    true
}

/// Skip the separator between items.
fn skip_gap(cursor: &mut Cursor<'_>) {
    loop {
        let rest = cursor.rest();
        let plain = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', ',']).len();
        let escape = ["\\n", "\\r", "\\t"].iter().find(|escape| rest.starts_with(**escape)).map_or(0, |_| 2);
        if plain + escape == 0 {
            return;
        }
        cursor.at += if plain > 0 { plain } else { escape };
    }
}

/// Find those in lines that begin with a dash; return whether there are any.
fn dashed(mut cursor: Cursor<'_>, name: &str, found: &mut Vec<Secret>) -> bool {
    for item in 0..MOST {
        let rest = cursor.rest();
        let Some(line) = rest.strip_prefix('\n').or_else(|| rest.strip_prefix("\\n")) else {
            return item > 0;
        };
        let behind = line.trim_start_matches([' ', '\t', '+']);
        let Some(value) = behind.strip_prefix("- ") else { return item > 0 };
        cursor.at += rest.len() - value.len();
        let length = value.find(['\n', '\r', '\\']).unwrap_or(value.len());
        let bare = value[..length].trim_matches([' ', '"', '\'']);
        let from = cursor.at + value.find(bare).unwrap_or(0);
        found.extend(family(name, bare).map(|family| Secret::new(from, from + bare.len(), family, RANK)));
        cursor.at += length;
    }
    true
}
