//! Parts of one record of a rollout: its fields besides the messages, and the rest.

use karl_log::columns::ScannedRow;
use karl_log::detect::Input;
use karl_log::format::{Field, Fields, Format, Transform};
use karl_log::json::project::Path;
use karl_log::json::reference_parser::lookup;
use serde_json::Value;

use super::chat;
use super::copies::id;
use super::json_type::{JsonType, LIST, TEXT, WORDS, absent, is_mistyped};
use super::record::{Head, Tokens};
use super::report::Made;

/// Return the fields of a record besides its messages.
pub(super) fn head(record: &Value, input: &Input, row: &ScannedRow<'_>, made: &mut Made) -> Head {
    let format = input.format;
    let at = |path: &str| Path::parse(path).ok().and_then(|path| lookup(record, &path));
    let version = at(format.policy_version);
    let wanted = &[JsonType::Number, JsonType::Text];
    let version = version.filter(|_| !is_mistyped(version, wanted, format.policy_version, made)).cloned();
    let model = at(format.model);
    is_mistyped(model, TEXT, format.model, made);
    // A tool without token counts writes 0.
    let count = |path: &str| at(path).and_then(Value::as_u64).filter(|&count| count > 0);
    Head {
        id: id(record, &input.fields).unwrap_or_else(|| format!("{:032x}", row.id)),
        group: row.group.map(|group| String::from_utf8_lossy(group).into_owned()),
        reward: row.rewards.first().copied(),
        policy_version: version,
        model: model.and_then(Value::as_str).map(str::to_owned),
        tokens: Tokens {
            input: count(format.input_tokens),
            output: count(format.output_tokens),
            ..Tokens::default()
        },
        ..Head::default()
    }
}

/// Count the parts of a trajectory with unexpected types; return whether there are any. Values beside a
/// conversation are ignored, and so is a text beside a prompt and its completion.
pub(super) fn expect(record: &Value, fields: &Fields, made: &mut Made) -> bool {
    let chat = [(&fields.messages, LIST)];
    let halves = [(&fields.prompt, WORDS), (&fields.completion, WORDS)];
    let text = [(&fields.text, TEXT)];
    for parts in [&chat[..], &halves, &text] {
        let mut found = false;
        let mut wrong = false;
        for (field, wanted) in parts {
            for choice in field.iter().flat_map(Field::choices) {
                let wanted = if choice.made == Transform::Json { WORDS } else { wanted };
                let (held, place) = (lookup(record, &choice.path), choice.path.to_string());
                found |= held.is_some_and(|value| !value.is_null());
                wrong |= is_mistyped(held, wanted, &place, made);
                if let Some(messages) = held.filter(|held| held.is_array() || choice.made == Transform::Json)
                {
                    chat::expect(messages, &place, made);
                }
            }
        }
        if found {
            return wrong;
        }
    }
    false
}

/// Count a record without a trajectory, under the name of its preferred field.
pub(super) fn missing(fields: &Fields, made: &mut Made) {
    let Some(first) = fields.trajectory().flat_map(Field::choices).next() else { return };
    let list = fields.messages.is_some() && first.made != Transform::Json;
    absent(if list { LIST } else { WORDS }, &first.path.to_string(), made);
}

/// Return the rest of a record: the values that are kept nowhere else.
pub(super) fn rest(record: Value, format: &Format, head: &Head) -> Value {
    let taken = [
        (format.id, true),
        (format.group, head.group.is_some()),
        (format.reward, head.reward.is_some()),
        (format.policy_version, head.policy_version.is_some()),
        (format.model, head.model.is_some()),
    ];
    let Value::Object(mut fields) = record else { return Value::Null };
    fields.retain(|key, value| !value.is_null() && !taken.contains(&(&key[..], true)));
    Value::Object(fields)
}
