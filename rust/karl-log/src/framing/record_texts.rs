//! Records of one text, with counts of the invalid ones.

use super::{MARK, Piece};
use crate::json::project::{ScanFault, skip_space};
use crate::rejects::{FileTally, RejectReason};

/// Text that may hold records.
#[derive(Clone, Copy)]
pub struct RecordText<'a> {
    /// Offset of the first byte in the unpacked stream.
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
    /// True if its end was reached.
    pub(crate) ended: bool,
    /// True if the text is a line, which may be opened.
    pub(crate) is_line: bool,
}

impl<'a> RecordText<'a> {
    /// Return the text of a piece; count any other piece.
    pub(crate) fn of(piece: &Piece<'a>, is_line: bool, tally: &mut FileTally) -> Option<Self> {
        match *piece {
            Piece::TooLong { offset } => tally.bad(offset, RejectReason::TooLong),
            Piece::Cut { offset } => tally.bad(offset, RejectReason::Torn),
            Piece::Text { offset, bytes, ended } => return Some(Self { offset, bytes, ended, is_line }),
        }
        None
    }
}

/// Pass each record of a text with its offset to `take`, which returns its end; one text may hold several
/// concatenated records. Return the offset at which a line has to be
/// opened, if any: an array begins there, or a record that does not end on
/// the line.
#[inline]
pub fn each_record(
    text: RecordText<'_>,
    tally: &mut FileTally,
    mut take: impl FnMut(&[u8], u64, &mut FileTally) -> Result<usize, ScanFault>,
) -> Option<u64> {
    let bytes = text.bytes;
    let (mut at, mut records) = (skip_space(bytes, 0), 0);
    let mut open = None;
    while at < bytes.len() {
        let place = text.offset + at as u64;
        match take(&bytes[at..], place, tally) {
            Ok(end) => {
                at = skip_space(bytes, at + end);
                records += 1;
            }
            Err(fault) => match not_a_record(text, at, records, fault) {
                NotARecord::Space(end) => at = skip_space(bytes, end),
                NotARecord::Open => {
                    open = Some(place);
                    break;
                }
                NotARecord::Bad(reason) => {
                    tally.bad(place, reason);
                    records = records.max(1);
                    break;
                }
            },
        }
    }
    tally.blank += u64::from(records == 0 && open.is_none());
    tally.welded += u64::from(records > 1);
    open
}

/// Content found in place of a record.
enum NotARecord {
    /// White space up to this position.
    Space(usize),
    Open,
    Bad(RejectReason),
}

/// Classify a text that is not a record. A byte order mark occurs where files were joined, a comma where an
/// array was cut; a record over several lines begins at the start of its line, or a part of a damaged one
/// could be taken for another.
#[cold]
fn not_a_record(text: RecordText<'_>, at: usize, records: u64, fault: ScanFault) -> NotARecord {
    let rest = &text.bytes[at..];
    let begins = records > 0 || at == 0 || text.bytes[..at] == *MARK;
    match rest[0] {
        b',' if records > 0 => NotARecord::Space(at + 1),
        b'[' if text.is_line => NotARecord::Open,
        b'{' if text.is_line && text.ended && begins && fault == ScanFault::Truncated => NotARecord::Open,
        _ if rest.starts_with(MARK) => NotARecord::Space(at + MARK.len()),
        _ => NotARecord::Bad(reason(fault, text.ended)),
    }
}

/// Return the reason why the scan stopped at a text.
pub(crate) fn reason(fault: ScanFault, ended: bool) -> RejectReason {
    match fault {
        ScanFault::NotAnObject => RejectReason::NotAnObject,
        ScanFault::Truncated if !ended => RejectReason::Torn,
        ScanFault::Truncated | ScanFault::Malformed(_) => RejectReason::Malformed,
    }
}
