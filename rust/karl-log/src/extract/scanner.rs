//! Conversion of one record's text to one row of columns, or to a reason for rejection.

use super::settings::{Compare, ScanSettings};
use std::borrow::Cow;
use std::ops::Range;

use karl_core::reward::complement;
use karl_core::rng::id128;
use memchr::memchr;

use super::joined_name::{BETWEEN, part};
use super::slot::{FieldValues, Slot, holds};
use crate::columns::{PackedPlace, RowSink, ScannedRow};
use crate::conversation::content_hash::learned;
use crate::format::{Component, Field, Fields};
use crate::framing::record_texts::{RecordText, each_record};
use crate::framing::{TextBatch, WholeLines, begins_array, without_return};
use crate::json::duplicate_keys::doubled;
use crate::json::order::{Order, order};
use crate::json::project::{Path, PathTree, Scan, ScanFault};
use crate::json::reference_parser;
use crate::json::scalar::{Name, RewardValue, reward};
use crate::rejects::{FileTally, RejectReason};

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
        let mut seats = |more: &mut dyn Iterator<Item = &Field>| -> Vec<Slot> {
            more.map(|field| Slot::new(field, &mut paths)).collect()
        };
        let group = seats(&mut fields.group.iter());
        let reward = seats(&mut fields.reward.iter());
        let domain = seats(&mut fields.domain.iter());
        let partition = seats(&mut fields.partition.iter());
        let order = fields.order.as_ref().map(|field| Slot::new(field, &mut paths));
        let values = vec![None; paths.len()];
        let scan = Scan::new(PathTree::new(&paths));
        let rewards = Vec::new();
        Self {
            input,
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
        let scanned = self.scan.object(bytes, &mut self.values)?;
        let record = &bytes[..scanned.end];
        tally.duplicate_keys += u64::from(scanned.duplicate);
        match self.row(record, offset, rows) {
            Ok(RowFlags { named, domain_lost, order }) => {
                tally.rows += 1;
                tally.without_id += u64::from(!named);
                tally.unusable_domains += u64::from(domain_lost);
                if let Some(order) = order {
                    tally.orders.push(order.is_time(), (tally.lines, offset));
                }
                tally.reached = offset + scanned.end as u64;
            }
            Err(RejectReason::DuplicateKey) => tally.bad_key(offset, doubled(record)),
            Err(RejectReason::BadOrder) => tally.bad_order(offset, self.order_text(record)),
            Err(reason) => tally.bad(offset, reason),
        }
        Ok(scanned.end)
    }

    /// Add a row.
    fn row(&mut self, record: &[u8], offset: u64, rows: &mut impl RowSink) -> Result<RowFlags, RejectReason> {
        let length = u32::try_from(record.len()).map_err(|_| RejectReason::TooLong)?;
        let spot = PackedPlace::new(self.input, offset).ok_or(RejectReason::TooLong)?;
        if self.strict {
            reference_parser::check(record).map_err(|_| RejectReason::Malformed)?;
            if doubled(record).is_some() {
                return Err(RejectReason::DuplicateKey);
            }
        }
        let digest = id128(record);
        let mut rewards = std::mem::take(&mut self.rewards);
        let found = FieldValues { record, values: &self.values };
        if self
            .failed
            .as_ref()
            .and_then(|seat| seat.raw(found))
            .is_some_and(|raw| holds(raw) && raw != b"false")
        {
            return Err(RejectReason::FailedRollout);
        }
        let id = joined(&self.id, found, RejectReason::BadId)?;
        self.read_rewards(found, &mut rewards)?;
        let group = joined(&self.group, found, RejectReason::BadGroup)?;
        let (domain, domain_lost) = match joined(&self.domain, found, RejectReason::BadCategory) {
            Err(_) if !self.domain_asked => (None, true),
            domain => (domain?, false),
        };
        let partition = joined(&self.partition, found, RejectReason::BadCategory)?;
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
                Compare::Content => learned(record, &self.fields),
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
        for (seat, is_cost) in self.reward.iter().zip(&self.costs) {
            rewards.push(match reward(seat.raw(found)) {
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

/// Return the names of the slots, joined as [`parts`](crate::extract::joined_name) are; `None` if there is no
/// slot, or one of them is empty.
#[inline]
fn joined<'r>(
    seats: &[Slot],
    found: FieldValues<'r>,
    bad: RejectReason,
) -> Result<Option<Cow<'r, [u8]>>, RejectReason> {
    match seats {
        [] => Ok(None),
        [seat] => match seat.plain_name(found) {
            Some(name) => Ok(Some(Cow::Borrowed(name))),
            None => join(seats, found, bad),
        },
        _ => join(seats, found, bad),
    }
}

/// Return the same for names that need unescaping or a conversion.
#[inline(never)]
fn join<'r>(
    seats: &[Slot],
    found: FieldValues<'r>,
    bad: RejectReason,
) -> Result<Option<Cow<'r, [u8]>>, RejectReason> {
    let mut whole: Option<Cow<'r, str>> = None;
    let part = |name| if seats.len() > 1 { part(name) } else { name };
    for seat in seats {
        whole = match (whole, seat.name(found)) {
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
