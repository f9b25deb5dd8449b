//! Names joined from several fields, without ambiguity.

use std::borrow::Cow;

/// Separator of parts.
pub(crate) const BETWEEN: &str = "/";

/// Return a part of a joined name. A `/` in it is escaped as `\/`, and the backslashes before a `/` or at its
/// end are doubled, so that different lists of parts never give one name; every other part is unchanged.
pub(crate) fn part(name: Cow<'_, str>) -> Cow<'_, str> {
    if !name.contains(BETWEEN) && !name.ends_with('\\') {
        return name;
    }
    let mut written = String::with_capacity(name.len() + 2);
    let mut run = 0;
    for letter in name.chars() {
        if letter == '/' {
            written.extend(std::iter::repeat_n('\\', run + 1));
        }
        run = if letter == '\\' { run + 1 } else { 0 };
        written.push(letter);
    }
    written.extend(std::iter::repeat_n('\\', run));
    Cow::Owned(written)
}

/// Join the parts to a name; a single part is the name itself, and no parts give `None`.
#[must_use]
pub fn joined(parts: Vec<String>) -> Option<String> {
    if parts.len() > 1 {
        return Some(parts.into_iter().map(|name| part(name.into())).collect::<Vec<_>>().join(BETWEEN));
    }
    parts.into_iter().next()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn parts_without_the_sign_between_them_stay_as_they_are() {
        for name in ["", "a", "a b", r"a\b", r"\a", "\u{2215}"] {
            assert!(matches!(part(name.into()), Cow::Borrowed(same) if same == name));
        }
        let written = ["a/b", r"a\/b", r"a\"].map(|name| part(name.into()).into_owned());
        assert_eq!(written, [r"a\/b", r"a\\\/b", r"a\\"]);
    }

    #[test]
    fn no_two_lists_of_parts_are_joined_to_one_name() {
        let letters = ["", "x", "/", "\\"];
        let mut names: Vec<String> = vec![String::new()];
        for _ in 0..3 {
            names = names.iter().flat_map(|name| letters.map(|letter| format!("{name}{letter}"))).collect();
        }
        names.sort();
        names.dedup();
        let mut joined: HashMap<String, (String, String)> = HashMap::new();
        for a in &names {
            for b in &names {
                let text = format!("{}{BETWEEN}{}", part(a.into()), part(b.into()));
                let first = joined.entry(text).or_insert_with(|| (a.clone(), b.clone()));
                assert_eq!((&first.0, &first.1), (a, b));
            }
        }
    }
}
