//! Detection of values that are code rather than secrets: paths, calls, elements, types and regular
//! expressions.

use super::randomness::is_random;

/// Return whether a text names a file, an address or the place of a secret.
pub(super) fn is_path(text: &str) -> bool {
    let begins = ["/", "./", "../", "~/", "C:", "\\"].iter().any(|begin| text.starts_with(begin));
    let kept = ["vault:", "arn:", "ssm:", "secretsmanager:", "file:", "env:", "secret/", "keyring:"];
    text.contains("://")
        || kept.iter().any(|begin| text.starts_with(begin))
        || is_file(text)
        || (begins && !is_random(text))
        || (begins && text.matches('/').count() > 2)
}

/// Return whether a text names a file in a folder: `uploads/2024/x.png`.
fn is_file(text: &str) -> bool {
    let Some((folders, file)) = text.rsplit_once('/') else { return false };
    let Some((stem, ending)) = file.rsplit_once('.') else { return false };
    let name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte));
    (2..=5).contains(&ending.len())
        && ending.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && ending.starts_with(|letter: char| letter.is_ascii_lowercase())
        && !stem.is_empty()
        && name(folders)
        && name(stem)
}

/// Return whether a text is a call, an element of a collection or a regular expression.
pub(super) fn is_program(text: &str) -> bool {
    is_call(text) || is_element(text) || is_expression(text)
}

/// Return whether a text begins with an element of a collection: `sys.argv[1]`, `params[:password]`,
/// `form['pw1`.
fn is_element(text: &str) -> bool {
    let Some((name, index)) = text.split_once('[') else { return false };
    let named = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$&!".contains(&byte));
    let closed = index.find(']').is_some_and(|at| {
        let behind = &index[at + 1..];
        behind.is_empty() || behind.starts_with(['.', '[', '(', ')', ']', '\'', '"'])
    });
    let cut = name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'.')
        && index.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-".contains(&byte));
    !name.is_empty() && named && (index.starts_with([':', '\'', '"']) || closed || cut && index.len() <= 8)
}

/// Return whether a text is a regular expression.
fn is_expression(text: &str) -> bool {
    const PARTS: [&str; 16] = [
        "[a-z", "[A-Z", "[0-9", "[^", "[\\", "(?:", "(?=", "(?!", "(?P", "(?i", "\\d", "\\w", "\\s", "\\S",
        ".*", ".+$",
    ];
    PARTS.iter().any(|part| text.contains(part))
}

/// Return whether a text begins with a function call.
fn is_call(text: &str) -> bool {
    let name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:&".contains(&byte);
    text.find('(').is_some_and(|at| text[..at].bytes().all(name))
}

/// Return whether a text is the name of a type: it has the ending of one, or consists mostly of words of a
/// capital and three lower-case letters or more.
pub(super) fn is_type(text: &str) -> bool {
    let ends =
        ["Key", "Token", "Secret", "Password", "Credential", "Credentials", "String", "Type", "Hasher"];
    let small = |letter: char| letter.is_ascii_lowercase();
    let words = text.split(|letter| !small(letter)).filter(|word| word.len() >= 3);
    let covered: usize = words.map(|word| word.len() + 1).sum();
    let letters = text.bytes().filter(u8::is_ascii_alphabetic).count();
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && text.bytes().any(|byte| byte.is_ascii_uppercase())
        && (ends.iter().any(|end| text.ends_with(end)) || covered * 3 >= letters * 2)
}
