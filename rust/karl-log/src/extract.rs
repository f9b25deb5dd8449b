//! Extraction of the fields of a record: from its text to one row of columns, or to a reason for rejection.
//!
//! The fast scan stores each field in slots, whose values become names and numbers.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use karl_core::numeric::sum::sum;
use karl_core::reward::complement;
use karl_core::rng::id128;
use memchr::memchr;
use serde_json::Value;

use crate::columns::{PackedPlace, RowSink, ScannedRow};
use crate::conversation::content_hash::{hash_learned, prompt_text};
use crate::format::{Choice, Component, Field, Fields, Transform};
use crate::framing::record_texts::{RecordText, each_record, reason};
use crate::framing::{TextBatch, WholeLines, begins_array, without_return};
use crate::json::duplicate_keys::{find_duplicate_key, has_duplicate_key};
use crate::json::project::{Path, PathTree, Scan, ScanFault};
use crate::json::reference_parser;
use crate::json::scalar::{BETWEEN, Name, Order, RewardValue, escape_part, grade, name, order, reward};
use crate::json::unescape::plain;
use crate::rejects::{FileTally, RejectReason};
use crate::unfold::{Unfolded, Unfolder};

/// Part of a record to compare when duplicates are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Training content, as it would be written; the record's bytes if the content is unknown.
    Content,
    /// Bytes of the record.
    Records,
}

impl Compare {
    /// Return the name used in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Records => "records",
        }
    }

    /// Return the variant of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Content, Self::Records].into_iter().find(|compare| compare.name() == name)
    }
}

/// Settings of scanning.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanSettings {
    /// Part of each record to hash, so that duplicates can be detected.
    pub compare: Option<Compare>,
    /// True if the caller named the domain: then a record with an unusable domain is rejected. Otherwise the
    /// domain is for reports alone, and such a record has none.
    pub domain_asked: bool,
    /// True to parse every record in full, and to count duplicate keys as damage.
    pub strict: bool,
}

/// Flags of a row.
struct RowFlags {
    /// True if it has an id of its own.
    named: bool,
    /// True if its domain is not a name.
    domain_lost: bool,
    /// Its order, where one was asked for.
    order: Option<Order>,
}

/// Scanner of the records of a file, with the slot of each field.
#[derive(Debug)]
pub struct Scanner {
    input: usize,
    /// Maker of rows, if a record is not its only row.
    unfolder: Option<Unfolder>,
    scan: Scan,
    id: Vec<Slot>,
    group: Vec<Slot>,
    reward: Vec<Slot>,
    /// True for each component of the reward of which less is better.
    costs: Vec<bool>,
    domain: Vec<Slot>,
    partition: Vec<Slot>,
    order: Option<Slot>,
    failed: Option<Slot>,
    compare: Option<Compare>,
    fields: Fields,
    domain_asked: bool,
    strict: bool,
    values: Vec<Option<Range<usize>>>,
    rewards: Vec<f64>,
}

impl Scanner {
    /// Prepare to scan the records of a file with these fields.
    #[must_use]
    pub fn new(input: usize, fields: &Fields, settings: ScanSettings) -> Self {
        let mut paths: Vec<Path> = Vec::new();
        let id = fields.id.iter().map(|path| Slot::plain(path, &mut paths)).collect();
        let failed = fields.failed.as_ref().map(|path| Slot::plain(path, &mut paths));
        let mut slots = |more: &mut dyn Iterator<Item = &Field>| -> Vec<Slot> {
            more.map(|field| Slot::new(field, &mut paths)).collect()
        };
        let group = slots(&mut fields.group.iter());
        let reward = slots(&mut fields.reward.iter());
        let domain = slots(&mut fields.domain.iter());
        let partition = slots(&mut fields.partition.iter());
        let order = fields.order.as_ref().map(|field| Slot::new(field, &mut paths));
        let values = vec![None; paths.len()];
        let scan = Scan::new(PathTree::new(&paths));
        let rewards = Vec::new();
        Self {
            input,
            unfolder: Unfolder::new(fields),
            scan,
            id,
            group,
            reward,
            costs: fields.outcomes().iter().map(|one| one.is_some_and(Component::is_cost)).collect(),
            domain,
            partition,
            order,
            failed,
            compare: settings.compare,
            fields: fields.clone(),
            domain_asked: settings.domain_asked,
            strict: settings.strict,
            values,
            rewards,
        }
    }

    /// Scan the next texts of a file. Return the offset at which a line has to be
    /// [opened](crate::framing::JsonLines::open), if any: the value there is an array, or does not end on its
    /// line.
    pub(crate) fn texts(
        &mut self,
        texts: &TextBatch<'_>,
        rows: &mut impl RowSink,
        tally: &mut FileTally,
    ) -> Option<u64> {
        match texts {
            TextBatch::Lines(lines) => self.lines(lines, rows, tally),
            one => self.text(one.one(tally)?, rows, tally),
        }
    }

    fn lines(
        &mut self,
        lines: &WholeLines<'_>,
        rows: &mut impl RowSink,
        tally: &mut FileTally,
    ) -> Option<u64> {
        let WholeLines { offset, text, limit } = *lines;
        let mut at = 0;
        while let Some(length) = memchr(b'\n', &text[at..]) {
            let (offset, line) = (offset + at as u64, &text[at..at + length]);
            tally.lines += 1;
            // An array may be longer than a line.
            if length > limit && !begins_array(line) {
                tally.bad(offset, RejectReason::TooLong);
            } else {
                let text = RecordText { offset, bytes: without_return(line), ended: true, is_line: true };
                if let Some(open) = self.text(text, rows, tally) {
                    return Some(open);
                }
            }
            at += length + 1;
        }
        None
    }

    fn text(&mut self, text: RecordText<'_>, rows: &mut impl RowSink, tally: &mut FileTally) -> Option<u64> {
        each_record(text, tally, |bytes, offset, tally| self.record(bytes, offset, rows, tally))
    }

    /// Scan the record at the start of `bytes`; return its length.
    fn record(
        &mut self,
        bytes: &[u8],
        offset: u64,
        rows: &mut impl RowSink,
        tally: &mut FileTally,
    ) -> Result<usize, ScanFault> {
        if let Some(unfolder) = self.unfolder.take() {
            let unfolded = unfolder.unfold(bytes);
            self.unfolder = Some(unfolder);
            let unfolded = unfolded?;
            self.unfolded(&unfolded, offset, rows, tally);
            return Ok(unfolded.end);
        }
        let scanned = self.scan.object(bytes, &mut self.values)?;
        tally.duplicate_keys += u64::from(scanned.duplicate);
        self.scanned(&bytes[..scanned.end], (offset, scanned.end), rows, tally);
        Ok(scanned.end)
    }

    /// Scan the rows that were made of a record.
    fn unfolded(&mut self, unfolded: &Unfolded, offset: u64, rows: &mut impl RowSink, tally: &mut FileTally) {
        tally.duplicate_keys += u64::from(unfolded.duplicate);
        let texts = match &unfolded.rows {
            Ok(texts) => texts,
            Err(reason) => return tally.bad(offset, *reason),
        };
        for row in texts {
            match self.scan.object(row, &mut self.values) {
                Ok(_) => self.scanned(row, (offset, unfolded.end), rows, tally),
                Err(fault) => tally.bad(offset, reason(fault, true)),
            }
        }
    }

    /// Take in a record that was scanned, with its offset and length in the file.
    fn scanned(
        &mut self,
        record: &[u8],
        (offset, length): (u64, usize),
        rows: &mut impl RowSink,
        tally: &mut FileTally,
    ) {
        match self.row(record, (offset, length), rows) {
            Ok(RowFlags { named, domain_lost, order }) => {
                tally.rows += 1;
                tally.without_id += u64::from(!named);
                tally.unusable_domains += u64::from(domain_lost);
                if let Some(order) = order {
                    tally.orders.push(order.is_time(), (tally.lines, offset));
                }
                tally.reached = offset + length as u64;
            }
            Err(RejectReason::DuplicateKey) => tally.bad_key(offset, find_duplicate_key(record)),
            Err(RejectReason::BadOrder) => tally.bad_order(offset, self.order_text(record)),
            Err(reason) => tally.bad(offset, reason),
        }
    }

    /// Add a row, with the offset and the length of its record in the file.
    fn row(
        &mut self,
        record: &[u8],
        (offset, length): (u64, usize),
        rows: &mut impl RowSink,
    ) -> Result<RowFlags, RejectReason> {
        let length = u32::try_from(length).map_err(|_| RejectReason::TooLong)?;
        let spot = PackedPlace::new(self.input, offset).ok_or(RejectReason::TooLong)?;
        if self.strict {
            reference_parser::check(record).map_err(|_| RejectReason::Malformed)?;
            if has_duplicate_key(record) {
                return Err(RejectReason::DuplicateKey);
            }
        }
        let digest = id128(record);
        let mut rewards = std::mem::take(&mut self.rewards);
        let found = FieldValues { record, values: &self.values };
        if self
            .failed
            .as_ref()
            .and_then(|slot| slot.raw(found))
            .is_some_and(|raw| holds(raw) && raw != b"false")
        {
            return Err(RejectReason::FailedRollout);
        }
        let id = join_names(&self.id, found, RejectReason::BadId)?;
        self.read_rewards(found, &mut rewards)?;
        let group = join_names(&self.group, found, RejectReason::BadGroup)?;
        let (domain, domain_lost) = match join_names(&self.domain, found, RejectReason::BadCategory) {
            Err(_) if !self.domain_asked => (None, true),
            domain => (domain?, false),
        };
        let partition = join_names(&self.partition, found, RejectReason::BadCategory)?;
        let order = self
            .order
            .as_ref()
            .map(|slot| order(slot.raw(found)).ok_or(RejectReason::BadOrder))
            .transpose()?;
        // Behind the components of the reward, which are a column each.
        rewards.extend(order.map(Order::value));
        rows.push(&ScannedRow {
            id: id.as_ref().map_or(digest, |id| id128(id)),
            digest: upper(digest),
            spot,
            length,
            rewards: &rewards,
            group: group.as_deref(),
            domain: domain.as_deref(),
            partition: partition.as_deref(),
            fingerprint: self.compare.map(|compare| match compare {
                Compare::Records => digest,
                Compare::Content => hash_learned(record, &self.fields),
            }),
            record,
        });
        let named = id.is_some();
        self.rewards = rewards;
        Ok(RowFlags { named, domain_lost, order })
    }

    /// Return the beginning of the value that is not an order; None if there is none.
    fn order_text(&self, record: &[u8]) -> Option<String> {
        let raw = self.order.as_ref()?.raw(FieldValues { record, values: &self.values })?;
        Some(String::from_utf8_lossy(raw).chars().take(ORDER_SHOWN).collect())
    }

    fn read_rewards(&self, found: FieldValues<'_>, rewards: &mut Vec<f64>) -> Result<(), RejectReason> {
        rewards.clear();
        for (slot, is_cost) in self.reward.iter().zip(&self.costs) {
            rewards.push(match slot.reward(found) {
                RewardValue::Missing => f64::NAN,
                RewardValue::Value(value) if *is_cost => complement(value),
                RewardValue::Value(value) => value,
                RewardValue::Infinite => return Err(RejectReason::RewardInfinite),
                RewardValue::NotANumber => return Err(RejectReason::RewardNotANumber),
            });
        }
        Ok(())
    }
}

/// Characters of a bad order that are kept for its error.
const ORDER_SHOWN: usize = 40;

/// Return the kept half of a digest: enough to order records of one id, and to detect a changed one.
#[must_use]
pub fn upper(digest: u128) -> u64 {
    u64::try_from(digest >> 64).unwrap_or(u64::MAX)
}

/// Return the names of the slots, joined as by [`join_parts`]; `None` if there is no
/// slot, or one of them is empty.
#[inline]
fn join_names<'r>(
    slots: &[Slot],
    found: FieldValues<'r>,
    bad: RejectReason,
) -> Result<Option<Cow<'r, [u8]>>, RejectReason> {
    match slots {
        [] => Ok(None),
        [slot] => match slot.plain_name(found) {
            Some(name) => Ok(Some(Cow::Borrowed(name))),
            None => join_decoded(slots, found, bad),
        },
        _ => join_decoded(slots, found, bad),
    }
}

/// Return the same for names that need unescaping or a conversion.
#[inline(never)]
fn join_decoded<'r>(
    slots: &[Slot],
    found: FieldValues<'r>,
    bad: RejectReason,
) -> Result<Option<Cow<'r, [u8]>>, RejectReason> {
    let mut whole: Option<Cow<'r, str>> = None;
    let part = |name| if slots.len() > 1 { escape_part(name) } else { name };
    for slot in slots {
        whole = match (whole, slot.name(found)) {
            (_, Name::Bad) => return Err(bad),
            (_, Name::Missing) => return Ok(None),
            (None, Name::Text(first)) => Some(part(first)),
            (Some(before), Name::Text(next)) => Some(Cow::Owned(format!("{before}{BETWEEN}{}", part(next)))),
        };
    }
    Ok(whole.map(|name| match name {
        Cow::Borrowed(name) => Cow::Borrowed(name.as_bytes()),
        Cow::Owned(name) => Cow::Owned(name.into_bytes()),
    }))
}

/// Slots of a field's choices.
#[derive(Debug)]
struct Slot(Vec<SlotChoice>);

/// Choice of a field.
#[derive(Debug)]
struct SlotChoice {
    /// Place of its value among those of the scan.
    at: usize,
    transform: Transform,
    /// Text in place of the value.
    constant: Option<Arc<str>>,
}

/// Results of the scan: the record and the position of each wanted value in it.
#[derive(Clone, Copy)]
struct FieldValues<'r> {
    record: &'r [u8],
    values: &'r [Option<Range<usize>>],
}

impl Slot {
    /// Add a field's paths to the wanted ones.
    fn new(field: &Field, paths: &mut Vec<Path>) -> Self {
        let slot = |choice: &Choice| {
            paths.push(choice.path.clone());
            SlotChoice { at: paths.len() - 1, transform: choice.transform, constant: choice.constant.clone() }
        };
        Self(field.choices().iter().map(slot).collect())
    }

    /// Add a path without conversion.
    fn plain(path: &Path, paths: &mut Vec<Path>) -> Self {
        paths.push(path.clone());
        Self(vec![SlotChoice { at: paths.len() - 1, transform: Transform::AsIs, constant: None }])
    }

    /// Return the first non-empty choice, or else the last.
    fn choose<'r>(&self, found: FieldValues<'r>) -> (Option<&'r [u8]>, Transform) {
        let mut chosen = (None, Transform::AsIs);
        for choice in &self.0 {
            chosen = (found.raw(choice.at), choice.transform);
            if chosen.0.is_some_and(holds) {
                break;
            }
        }
        chosen
    }

    /// Return the text of the value as written.
    fn raw<'r>(&self, found: FieldValues<'r>) -> Option<&'r [u8]> {
        self.choose(found).0
    }

    /// Return the name in the value of the only choice, if it needs neither unescaping nor conversion.
    #[inline]
    fn plain_name<'r>(&self, found: FieldValues<'r>) -> Option<&'r [u8]> {
        let [SlotChoice { at, transform: Transform::AsIs, .. }] = self.0[..] else { return None };
        found.raw(at).and_then(plain)
    }

    /// Return the number that the value yields.
    fn reward(&self, found: FieldValues<'_>) -> RewardValue {
        match self.choose(found) {
            (raw, Transform::Grade) => grade(raw),
            (raw, Transform::Sum) => total(raw),
            (raw, _) => reward(raw),
        }
    }

    /// Return the name that the value yields.
    fn name<'r>(&self, found: FieldValues<'r>) -> Name<'r> {
        let is_present =
            |choice: &&SlotChoice| choice.constant.is_some() || found.raw(choice.at).is_some_and(holds);
        if let Some(SlotChoice { constant: Some(text), .. }) = self.0.iter().find(is_present) {
            return Name::Text(Cow::Owned(text.to_string()));
        }
        match self.choose(found) {
            (_, Transform::FileName | Transform::FileParent | Transform::FileMatch) => Name::Missing,
            (raw, Transform::Hash) => hash(raw),
            (raw, Transform::Quotient(by)) => quotient(raw, by),
            (raw, _) => name(raw),
        }
    }
}

impl<'r> FieldValues<'r> {
    fn raw(self, slot: usize) -> Option<&'r [u8]> {
        self.record.get(self.values.get(slot)?.clone()?)
    }
}

/// Parse a reward, or a list of rewards as their sum; a list with a value that is missing has no sum.
fn total(raw: Option<&[u8]>) -> RewardValue {
    let Some(text) = raw.filter(|raw| raw.starts_with(b"[")) else { return reward(raw) };
    let Ok(Value::Array(values)) = reference_parser::parse(text) else { return RewardValue::NotANumber };
    let mut numbers = Vec::with_capacity(values.len());
    for value in &values {
        match reward(Some(value.to_string().as_bytes())) {
            RewardValue::Value(number) => numbers.push(number),
            other => return other,
        }
    }
    let total = sum(numbers.iter().copied()).to_string();
    if numbers.is_empty() { RewardValue::Missing } else { reward(Some(total.as_bytes())) }
}

/// Return whether a value is present and neither null nor empty; an empty choice gives way to the next.
fn holds(raw: &[u8]) -> bool {
    !matches!(raw, b"null" | b"\"\"" | b"[]")
}

/// Return the hash of a text, of a list of messages by the rule of equal prompts, or of any other value as
/// written without spaces and needless escapes.
fn hash(raw: Option<&[u8]>) -> Name<'static> {
    let hex = |bytes: &[u8]| Name::Text(Cow::Owned(format!("{:032x}", id128(bytes))));
    match (raw, name(raw)) {
        (_, Name::Missing) => Name::Missing,
        (_, Name::Text(text)) => hex(text.as_bytes()),
        (raw, Name::Bad) => match raw.map(reference_parser::parse) {
            Some(Ok(value)) => hex(prompt_text(&value).unwrap_or_else(|| value.to_string()).as_bytes()),
            _ => Name::Bad,
        },
    }
}

fn quotient(raw: Option<&[u8]>, by: NonZeroU64) -> Name<'static> {
    let Name::Text(text) = name(raw) else {
        return if raw.is_some_and(holds) { Name::Bad } else { Name::Missing };
    };
    text.parse().map_or(Name::Bad, |whole: i64| {
        Name::Text(Cow::Owned(i128::from(whole).div_euclid(i128::from(by.get())).to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: Name<'_>) -> Option<String> {
        if let Name::Text(text) = name { Some(text.into_owned()) } else { None }
    }

    #[test]
    fn a_hash_is_of_the_text_and_not_of_the_way_it_is_written() {
        let plain = text(hash(Some(br#""a b""#)));
        assert!(plain.is_some());
        assert_eq!(text(hash(Some(br#""\u0061\u0020b""#))), plain);
        assert_ne!(text(hash(Some(br#""a  b""#))), plain);
        assert_eq!(text(hash(Some(br#"[{"role":"user","content":"a b","id":7}]"#))), plain);
        let list = text(hash(Some(br#"[{"role":"user","content":"a"}]"#)));
        assert!(list.is_some());
        assert_eq!(text(hash(Some(br#"[ {"role": "user", "content": "\u0061"} ]"#))), list);
        assert_eq!(hash(Some(b"null")), Name::Missing);
        assert_eq!(hash(None), Name::Missing);
        for damaged in [&b"[1"[..], b"\"\\ud800\"", b"[NaNa]", b"nil"] {
            assert_eq!(hash(Some(damaged)), Name::Bad);
        }
    }

    #[test]
    fn a_quotient_is_rounded_down() {
        let by = NonZeroU64::new(8).unwrap();
        for (raw, wanted) in [
            ("0", "0"),
            ("7", "0"),
            ("8", "1"),
            ("-1", "-1"),
            ("\"17\"", "2"),
            ("9223372036854775807", "1152921504606846975"),
        ] {
            assert_eq!(text(quotient(Some(raw.as_bytes()), by)).as_deref(), Some(wanted), "{raw}");
        }
        for bad in ["1.5", "\"a\"", "true", "[1]", "{}", "99999999999999999999"] {
            assert_eq!(quotient(Some(bad.as_bytes()), by), Name::Bad, "{bad}");
        }
        assert_eq!(quotient(Some(b"null"), by), Name::Missing);
        assert_eq!(quotient(None, by), Name::Missing);
    }
}
