//! Hash of a JSON value, however it is written.

use serde_json::Value;

use super::lineage::hash;

/// Return a hash of a value that ignores the order of keys, and keys with null.
pub(super) fn hash_of(value: &Value) -> u64 {
    match value {
        Value::Object(fields) => {
            let held = fields.iter().filter(|(_, value)| !value.is_null());
            let sum = held.fold(0_u64, |sum, (key, value)| {
                sum.wrapping_add(pair(hash("key", key.as_bytes()), hash_of(value)))
            });
            hash("object", &sum.to_le_bytes())
        }
        Value::Array(items) => items.iter().fold(hash("array", b""), |sum, item| pair(sum, hash_of(item))),
        Value::String(text) => hash("text", text.as_bytes()),
        other => hash("scalar", other.to_string().as_bytes()),
    }
}

fn pair(one: u64, other: u64) -> u64 {
    hash("pair", &[one.to_le_bytes(), other.to_le_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_the_order_of_keys_and_nulls_do_not_count() {
        let of = |text: &str| hash_of(&serde_json::from_str(text).unwrap());
        let one = of(r#"{"a":[1,{"b":"c","n":null}],"d":true}"#);
        assert_eq!(one, of(r#"{ "d": true, "a": [1, {"b": "c"}] }"#));
        for other in [
            r#"{"a":[{"b":"c"},1],"d":true}"#,
            r#"{"a":[1,{"b":"c"},null],"d":true}"#,
            r#"{"a":["1",{"b":"c"}],"d":true}"#,
        ] {
            assert_ne!(one, of(other));
        }
    }
}
