//! Laws that the fast scan obeys for any bytes, checked against the reference parser.
//!
//! 1. Neither panics, and neither reads past the record: bytes after an object change no result.
//! 2. If the reference parser accepts the bytes as an object, so does the scan, with the same end, and every
//!    wanted value is the same: as JSON, as a name, and as a reward to the last bit. A wanted value is absent
//!    for both or for neither.
//! 3. If the reference parser rejects them, the scan may accept them: it does not detect damage in skipped
//!    parts. But a wanted value that the reference parser rejects becomes neither a name nor a reward.
//! 4. Earlier texts change no result.
//! 5. The validation that builds nothing accepts the same texts as the reference parser.

use std::cell::RefCell;
use std::io::{self, Write};
use std::ops::Range;

use karl_log::json::project::{Path, PathTree, Scan, ScanFault, Scanned, scan};
use karl_log::json::reference_parser::{check, lookup, parse};
use karl_log::json::scalar::{Name, RewardValue, name, reward};
use serde_json::Value;

/// Wanted paths of every text: plain keys, nested ones, one inside another, one with a dot, one beyond ASCII.
const PATHS: [&str; 8] = ["id", "group", "reward", "meta", "meta.id", "meta.group.id", r"a\.b", "ключ"];

/// Paths, prepared for the scan and for look-ups.
pub(crate) struct Paths {
    list: Vec<Path>,
    wanted: PathTree,
    /// Scan that has processed every text so far.
    used: RefCell<Scan>,
}

type Found = (Scanned, Vec<Option<Range<usize>>>);

impl Paths {
    pub(crate) fn new() -> Self {
        let list: Vec<Path> = PATHS.into_iter().filter_map(|path| Path::parse(path).ok()).collect();
        let wanted = PathTree::new(&list);
        Self { used: RefCell::new(Scan::new(wanted.clone())), wanted, list }
    }

    /// Return the end of the object at the start of a text, and the positions of its wanted values.
    fn scan(&self, text: &[u8]) -> Option<(usize, Vec<Option<Range<usize>>>)> {
        let mut values = vec![None; self.list.len()];
        scan(text, &self.wanted, &mut values).ok().map(|scanned| (scanned.end, values))
    }

    /// Check law 4: compare a new scan with a used one.
    fn scan_both(&self, text: &[u8]) -> [Result<Found, ScanFault>; 2] {
        let mut values = vec![None; self.list.len()];
        let new = scan(text, &self.wanted, &mut values).map(|scanned| (scanned, values.clone()));
        let used = self.used.borrow_mut().object(text, &mut values);
        [new, used.map(|scanned| (scanned, values))]
    }
}

/// Classification of a text.
pub(crate) enum Kind {
    /// Starts with a complete object.
    Whole,
    /// Contains damage that the scan skipped.
    DamageUnseen,
    /// Not an object.
    Refused,
}

/// Check every law for one text.
pub(crate) fn judge(text: &[u8], paths: &Paths) -> Result<Kind, String> {
    if check(text).is_ok() != parse(text).is_ok() {
        return Err("the check and the parser differ".to_owned());
    }
    let [new, used] = paths.scan_both(text);
    if new != used {
        return Err(format!("{new:?} for a new scan, and {used:?} for one that has seen other texts"));
    }
    let Some((end, values)) = paths.scan(text) else {
        // Leading white space is skipped by the caller.
        let accepted = text.starts_with(b"{") && parse(text).is_ok();
        return if accepted { Err("the scan refuses an object".to_owned()) } else { Ok(Kind::Refused) };
    };
    let object = text.get(..end).ok_or("the end lies beyond the text")?;
    if paths.scan(object) != Some((end, values.clone())) {
        return Err("what follows the object changes what is found in it".to_owned());
    }
    let raw = |range: &Range<usize>| object.get(range.clone()).ok_or("a value lies beyond the object");
    let record = parse(object).ok();
    for (path, value) in paths.list.iter().zip(&values) {
        let raw = value.as_ref().map(raw).transpose()?;
        let held = match &record {
            Some(record) => same(raw, lookup(record, path)),
            None => raw.is_none_or(no_better_than_trusted),
        };
        if !held {
            return Err(format!(
                "{path} is {:?} here",
                raw.map(<[u8]>::escape_ascii).map(|raw| raw.to_string())
            ));
        }
    }
    Ok(if record.is_some() { Kind::Whole } else { Kind::DamageUnseen })
}

/// Check law 2 for one value.
fn same(raw: Option<&[u8]>, trusted: Option<&Value>) -> bool {
    raw.map(|raw| parse(raw).ok()) == trusted.map(|value| Some(value.clone()))
        && same_name(raw, trusted)
        && same_reward(raw, trusted)
}

fn same_name(raw: Option<&[u8]>, trusted: Option<&Value>) -> bool {
    match (name(raw), trusted) {
        (Name::Missing, None | Some(Value::Null)) => raw.is_none_or(|raw| raw == b"null"),
        (Name::Text(text), Some(Value::String(trusted))) => text == trusted.as_str(),
        (Name::Text(text), Some(value @ (Value::Number(_) | Value::Bool(_)))) => {
            raw == Some(text.as_bytes()) && parse(text.as_bytes()).is_ok_and(|text| text == *value)
        }
        // The words for non-finite numbers become null, and are not names.
        (Name::Bad, Some(Value::Null)) => raw.is_some_and(|raw| raw != b"null"),
        (Name::Bad, Some(Value::Array(_) | Value::Object(_))) => true,
        _ => false,
    }
}

fn same_reward(raw: Option<&[u8]>, trusted: Option<&Value>) -> bool {
    let wanted = match trusted {
        Some(Value::Null) if raw.is_some_and(|raw| raw.ends_with(b"Infinity")) => RewardValue::Infinite,
        None | Some(Value::Null) => RewardValue::Missing,
        Some(Value::Bool(truth)) => RewardValue::Value(f64::from(u8::from(*truth))),
        Some(Value::Number(number)) => match number.to_string().parse::<f64>() {
            Ok(value) if value.abs() <= 1e100 => RewardValue::Value(value + 0.0),
            _ => RewardValue::Infinite,
        },
        Some(_) => RewardValue::NotANumber,
    };
    match (reward(raw), wanted) {
        (RewardValue::Value(found), RewardValue::Value(wanted)) => found.to_bits() == wanted.to_bits(),
        (found, wanted) => found == wanted,
    }
}

/// Check law 3 for one value.
fn no_better_than_trusted(raw: &[u8]) -> bool {
    parse(raw).is_ok() || (name(Some(raw)) == Name::Bad && reward(Some(raw)) == RewardValue::NotANumber)
}

/// Write one line for comparison with another parser: the text, whether the reference parser accepts its
/// object, the object's end, and for each path its value's position, the reward in it as bits or a word, and
/// the name in it. Texts are hexadecimal.
pub(crate) fn print(out: &mut impl Write, paths: &Paths, text: &[u8]) -> io::Result<()> {
    write!(out, "{}", hex(text))?;
    let Some((end, values)) = paths.scan(text) else {
        return writeln!(out, "\t{}", if parse(text).is_ok() { "other" } else { "refused" });
    };
    write!(out, "\t{}\t{end}", if parse(&text[..end]).is_ok() { "whole" } else { "damaged" })?;
    for value in values {
        let Some(range) = value else {
            write!(out, "\t-")?;
            continue;
        };
        let raw = Some(&text[range.clone()]);
        let reward = match reward(raw) {
            RewardValue::Value(value) => format!("{:016x}", value.to_bits()),
            other => format!("{other:?}"),
        };
        let name = match name(raw) {
            Name::Text(text) => hex(text.as_bytes()),
            other => format!("{other:?}"),
        };
        write!(out, "\t{} {} {reward} {name}", range.start, range.end)?;
    }
    writeln!(out)
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
