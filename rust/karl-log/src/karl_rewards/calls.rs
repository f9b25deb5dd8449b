//! Calls of one record as numbers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use karl_reward::{Call, Fault, Node, PARAMS, ToolKind, Tools, Value, Version, Words};
use twox_hash::XxHash3_128;

use super::lazy::{Raw, quoted};
use crate::intern::SharedInterner;
use crate::json::project::{Scan, skip_space};
use crate::json::unescape::unescape;

/// Upper bound of the numbers of tools that the formulas know by name; they equal the numbers of their kinds.
const KNOWN: u32 = 8;

/// Tool of a call without a name.
const UNKNOWN: &str = "unknown";

/// Fields of a call: its tool, its success, its parameters and the fields of those that v2 needs.
type EventFields<'a> = [Option<Raw<'a>>; 3 + PARAMS.len()];

/// The same fields, and the preview of its input.
type CallFields<'a> = [Option<Raw<'a>>; 4 + PARAMS.len()];

/// Calls of one record, and the count of each tool.
pub(super) struct Calls {
    pub(super) all: Vec<Call>,
    pub(super) tools: Tools,
    /// Tools that the formulas do not know by name.
    names: TextInterner,
    /// Tools with a count in the record.
    counted: TextInterner,
    pub(super) files: TextInterner,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self {
            all: Vec::new(),
            tools: Tools::default(),
            names: TextInterner::new(),
            counted: TextInterner::new(),
            files: TextInterner::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.tools.clear();
        self.names.clear();
        self.counted.clear();
        self.files.clear();
    }

    /// Read a call as v1 does.
    pub(super) fn plain(&mut self, [tool, success]: [Option<Raw<'_>>; 2]) -> Option<()> {
        let kind = ToolKind::of(text(tool)?.as_bytes());
        self.all.push(Call {
            tool: 0,
            kind,
            success: answer(success).ok()?,
            words: Words::default(),
            file: 0,
        });
        Some(())
    }

    pub(super) fn event(&mut self, [tool, success, params, command, file]: EventFields<'_>) -> Option<()> {
        if params.is_some_and(|params| !params.is_object()) {
            return None;
        }
        self.push(tool, success, [text(command)?, text(file)?])
    }

    /// Read a call in the form of newer records: missing parameters are taken from the preview.
    pub(super) fn call(
        &mut self,
        [tool, success, params, command, file, preview]: CallFields<'_>,
    ) -> Option<()> {
        if params.is_some_and(|params| params.is_object() && params.some()) {
            return self.push(tool, success, [text(command)?, text(file)?]);
        }
        let params = preview.map_or(Ok(None), |preview| preview.embedded(PARAMS)).ok()?;
        let [command, file] = params.unwrap_or([const { Value::Absent }; 2]);
        self.push(tool, success, [text_of(command)?, text_of(file)?])
    }

    fn push(
        &mut self,
        tool: Option<Raw<'_>>,
        success: Option<Raw<'_>>,
        [command, file]: [Cow<'_, str>; 2],
    ) -> Option<()> {
        let name = text(tool)?;
        let kind = ToolKind::of(name.as_bytes());
        let tool = if kind == ToolKind::Other { KNOWN + self.names.number(&name) } else { kind as u32 };
        let words = if kind == ToolKind::Bash { Words::of(&command) } else { Words::default() };
        let file = if file.is_empty() { 0 } else { self.files.number(&file) };
        self.all.push(Call { tool, kind, success: answer(success).ok()?, words, file });
        Some(())
    }

    /// Visit the elements of a list of objects.
    pub(super) fn each<'a, const N: usize>(
        &mut self,
        list: Raw<'a>,
        scan: &mut Scan,
        read: impl Fn(&mut Self, [Option<Raw<'a>>; N]) -> Option<()>,
    ) -> Option<()> {
        let bytes = list.0.strip_prefix(b"[")?;
        let mut at = skip_space(bytes, 0);
        if bytes.get(at) == Some(&b']') {
            return Some(());
        }
        loop {
            let element = bytes.get(at..)?;
            let mut slots = [const { None }; N];
            let end = scan.object(element, &mut slots).ok()?.end;
            read(self, slots.map(|slot| Raw::at(element, slot)))?;
            at = skip_space(bytes, at + end);
            match bytes.get(at)? {
                b',' => at = skip_space(bytes, at + 1),
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Read the record's counts of tools, each tool once; if v2 finds none, use those of the calls.
    pub(super) fn count(&mut self, counts: Option<Raw<'_>>, version: Version) -> Option<()> {
        let given = counts.map_or(Some(()), |counts| self.add_counts(counts));
        if version == Version::V2 && self.tools.counts().is_empty() {
            self.count_tools();
        }
        given
    }

    fn add_counts(&mut self, counts: Raw<'_>) -> Option<()> {
        if !counts.is_object() {
            return None;
        }
        let read = counts.parts(true, |before, count| {
            let name = unescape(quoted(before)).ok_or(Fault::Type)?;
            self.counted.number(&name);
            self.tools.push(ToolKind::of(name.as_bytes()).changes(), whole(count).ok_or(Fault::Type)?);
            Ok(())
        });
        (read.is_ok() && self.counted.len() == self.tools.counts().len()).then_some(())
    }

    fn count_tools(&mut self) {
        let unknown = KNOWN + self.names.number(UNKNOWN);
        let tool = |call: &Call| if call.kind == ToolKind::Unnamed { unknown } else { call.tool };
        self.tools.count(self.all.iter().map(|call| (tool(call), call.kind.changes())));
    }
}

/// Return a boolean, if present.
pub(super) fn answer(raw: Option<Raw<'_>>) -> Result<Option<bool>, Fault> {
    match raw.map(|raw| raw.0) {
        None | Some(b"null") => Ok(None),
        Some(b"true") => Ok(Some(true)),
        Some(b"false") => Ok(Some(false)),
        _ => Err(Fault::Type),
    }
}

/// Return an integer from 0 to 999,999,999; `None` for any other value.
pub(super) fn whole(raw: Raw<'_>) -> Option<u32> {
    let digits = match raw.0 {
        [b'0', _, ..] | [] => return None,
        digits => digits,
    };
    let number = |number, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'));
    (digits.len() < 10).then(|| digits.iter().try_fold(0, number))?
}

/// Return a text, empty if absent; `None` for a value of another type.
fn text(raw: Option<Raw<'_>>) -> Option<Cow<'_, str>> {
    match raw.map(|raw| raw.0) {
        None | Some(b"null") => Some("".into()),
        Some(quoted @ [b'"', ..]) => unescape(quoted),
        _ => None,
    }
}

fn text_of(value: Value<'_>) -> Option<Cow<'_, str>> {
    match value {
        Value::Absent | Value::Null => Some("".into()),
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// Maximum capacity kept between records.
const MANY: usize = 1 << 10;

/// Numbers of texts, from 1 in order of appearance.
///
/// A text is identified by its XXH3-128 with a seed that differs between processes: no record can force
/// collisions.
pub(super) struct TextInterner {
    seed: u64,
    seen: HashMap<u128, u32, BuildHasherDefault<Hashed>>,
}

impl TextInterner {
    pub(super) fn new() -> Self {
        Self { seed: SharedInterner::seed(), seen: HashMap::default() }
    }

    /// Return the number of a text; a new one for a new text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        let next = u32::try_from(self.seen.len() + 1).unwrap_or(u32::MAX);
        let hash = XxHash3_128::oneshot_with_seed(self.seed, text.as_bytes());
        *self.seen.entry(hash).or_insert(next)
    }

    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    /// Forget all texts.
    pub(super) fn clear(&mut self) {
        if self.seen.len() > MANY {
            self.seen = HashMap::default();
        }
        self.seen.clear();
    }
}

/// Hasher of values that are hashes already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    #[allow(clippy::cast_possible_truncation, reason = "the low half is as good as the whole")]
    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}
