//! Elements of a JSON array, as raw text.

use super::project::{skip_space, skip_value};

/// Iterate over the elements of a validated array; none for any other value.
pub fn elements(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = if raw.first() == Some(&b'[') { skip_space(raw, 1) } else { raw.len() };
    std::iter::from_fn(move || {
        let end = skip_value(raw, at).ok().filter(|_| raw.get(at) != Some(&b']'))?;
        let element = &raw[at..end];
        at = skip_space(raw, end);
        at = if raw.get(at) == Some(&b',') { skip_space(raw, at + 1) } else { raw.len() };
        Some(element)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_of_the_array() {
        let found = |raw: &str| -> Vec<String> {
            elements(raw.as_bytes()).map(|raw| String::from_utf8_lossy(raw).into_owned()).collect()
        };
        assert_eq!(found(r#"[ {"a":[1]} , "b]" ,3 ]"#), [r#"{"a":[1]}"#, "\"b]\"", "3"]);
        assert!(["[]", "[ ]", "\"a\"", "null", ""].iter().all(|raw| found(raw).is_empty()));
    }
}
