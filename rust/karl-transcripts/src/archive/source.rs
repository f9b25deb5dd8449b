//! Agent's file: its form, and the part of it that a collection has to read, by comparisons of its bytes with those
//! that were collected.

use std::borrow::Cow;
use std::fs::{self, File, Metadata};
use std::io::{self, Cursor, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use karl_core::rng::id128;
use karl_log::input::codec::{Codec, MAGIC, unpacked};
use memchr::memrchr;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use twox_hash::XxHash3_128;

use super::catalogue::CatalogueEntry;

/// Bytes at either end that identify a file, and bytes of a first line that do.
pub(super) const END: usize = 4096;
const FIRST: u64 = 1 << 16;

/// Longest last line without a line break that is parsed, to find out whether it is whole.
const LAST: u64 = 64 << 20;

/// Bytes read at once.
pub(super) const BLOCK: usize = 1 << 18;

/// File of an agent.
#[derive(Clone, Debug)]
pub struct AgentFile {
    /// Agent.
    pub agent: String,
    /// File that the agent wrote.
    pub path: PathBuf,
    /// Place in the archive, without the suffix of its packing.
    pub name: String,
    /// Form of its content.
    pub form: FileForm,
}

/// Form of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileForm {
    /// Lines, appended by the agent.
    Lines,
    /// One JSON document, rewritten as a whole.
    Document,
    /// Rows of a database, exported to this temporary file of lines.
    Rows(PathBuf),
}

impl AgentFile {
    /// Return its path as text. Bytes that are not UTF-8 are escaped, as `\xff`.
    pub(super) fn shown(&self) -> Cow<'_, str> {
        let bytes = self.path.as_os_str().as_bytes();
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Cow::Borrowed(text);
        }
        let mut shown = String::new();
        for chunk in bytes.utf8_chunks() {
            shown.push_str(chunk.valid());
            shown.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
        }
        Cow::Owned(shown)
    }

    /// Return the size in bytes; 0 if unknown.
    pub(super) fn size(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |facts| facts.len())
    }
}

/// Return a hash in hexadecimal.
pub(super) fn hex(hash: u128) -> String {
    format!("{hash:032x}")
}

/// Return the hashes of the ends of a file's first `complete` bytes.
pub(super) fn ends(file: &File, complete: u64) -> io::Result<(String, String)> {
    let length = complete.min(END as u64);
    Ok((hash_at(file, 0, length)?, hash_at(file, complete - length, length)?))
}

fn hash_at(file: &File, from: u64, length: u64) -> io::Result<String> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from)?;
    Ok(hex(id128(&bytes)))
}

/// Return the hash of a first line; of a long one, of its beginning.
pub(super) fn first_line(reader: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader.take(FIRST).read_to_end(&mut bytes)?;
    let end = memchr::memchr(b'\n', &bytes).unwrap_or(bytes.len());
    Ok(hex(id128(bytes[..end].trim_ascii())))
}

/// Return the end of the last whole line between two offsets. A line without a line break is whole if it is a JSON
/// object: nothing that the agent may add belongs to it.
pub(super) fn end_of_lines(file: &File, from: u64, size: u64) -> io::Result<u64> {
    let mut end = size;
    let mut block = vec![0; BLOCK];
    let mut last = from;
    while end > from {
        let length = (end - from).min(BLOCK as u64);
        let bytes = &mut block[..usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(bytes, end - length)?;
        if let Some(at) = memrchr(b'\n', bytes) {
            last = end - length + at as u64 + 1;
            break;
        }
        end -= length;
    }
    Ok(if last < size && size - last <= LAST && is_object(file, last, size)? { size } else { last })
}

fn is_object(file: &File, from: u64, to: u64) -> io::Result<bool> {
    let mut bytes = vec![0; usize::try_from(to - from).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from)?;
    Ok(is_record(&bytes))
}

/// Return whether a line is one JSON object.
pub(super) fn is_record(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Keys of a document's list of messages: Gemini CLI, and the old form of Copilot CLI.
const MESSAGES: [&str; 2] = ["messages", "chatMessages"];

/// Return a document as lines, so that one that grows adds only what is new. Another JSON text is one line.
///
/// ```text
/// {"sessionId": ..., "messages": [M, M]}  ──►  {"sessionId": ...}  the keys, without the messages
///                                              M                   one line a message
///                                              M
/// ```
///
/// # Errors
/// The text is not JSON, as while the agent writes it.
pub(super) fn document_lines(text: &[u8]) -> serde_json::Result<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(text)?;
    let messages = document.as_object_mut().map(messages).unwrap_or_default();
    let mut out = Vec::with_capacity(text.len());
    for value in std::iter::once(document).chain(messages) {
        serde_json::to_writer(&mut out, &value)?;
        out.push(b'\n');
    }
    Ok(out)
}

fn messages(document: &mut Map<String, Value>) -> Vec<Value> {
    let key = MESSAGES.into_iter().find(|key| document.get(*key).is_some_and(Value::is_array));
    match key.and_then(|key| document.shift_remove(key)) {
        Some(Value::Array(messages)) => messages,
        _ => Vec::new(),
    }
}

/// Part to read.
pub(super) enum ReadPart {
    /// Bytes between two offsets of a plain file of lines.
    Bytes { file: File, from: u64, to: u64 },
    /// All lines of any other file.
    Lines { lines: Box<dyn Read>, state: State },
    /// Nothing that is new.
    Nothing,
}

/// State of an agent's file when it was read.
#[derive(Default)]
pub(super) struct State {
    pub(super) size: u64,
    pub(super) modified: Option<i64>,
    pub(super) head: String,
    pub(super) tail: String,
    pub(super) complete: Option<u64>,
    pub(super) is_mixed: bool,
}

impl State {
    /// Return the state of a plain file of lines up to an offset.
    pub(super) fn of(file: &File, complete: u64) -> io::Result<Self> {
        let (head, tail) = ends(file, complete)?;
        let facts = file.metadata()?;
        let (size, modified) = (facts.len(), Some(modified(&facts)));
        Ok(Self { size, modified, head, tail, complete: Some(complete), is_mixed: false })
    }

    fn of_all(head: String, size: u64) -> Self {
        Self { size, head, complete: Some(size), is_mixed: true, ..Self::default() }
    }
}

/// Return the hash of the first line of a file of lines, which identifies it; empty for other files, of which every
/// line may change.
pub(super) fn identity(file: &AgentFile) -> io::Result<String> {
    if file.form != FileForm::Lines {
        return Ok(String::new());
    }
    first_line(lines_of(file)?)
}

/// Return the lines of a file of lines, unpacked.
pub(super) fn lines_of(file: &AgentFile) -> io::Result<Box<dyn Read + Send>> {
    let (mut plain, codec) = open(file)?;
    plain.rewind()?;
    unpacked(plain, codec)
}

/// Return the part of a file that is new since its last entry.
pub(super) fn part(file: &AgentFile, known: Option<&CatalogueEntry>) -> io::Result<ReadPart> {
    let is_known = |state: &State| {
        known.is_some_and(|known| known.complete == state.complete && known.head == state.head)
    };
    match &file.form {
        FileForm::Lines => match open(file)? {
            (plain, Codec::Plain) => appended(plain, known),
            (mut packed, codec) => {
                let state = whole(&packed)?;
                packed.rewind()?;
                Ok(if is_known(&state) {
                    ReadPart::Nothing
                } else {
                    ReadPart::Lines { lines: unpacked(packed, codec)?, state }
                })
            }
        },
        FileForm::Document => {
            let text = fs::read(&file.path)?;
            let state = State::of_all(hex(id128(&text)), text.len() as u64);
            if is_known(&state) {
                return Ok(ReadPart::Nothing);
            }
            Ok(ReadPart::Lines { lines: Box::new(Cursor::new(document_lines(&text)?)), state })
        }
        FileForm::Rows(lines) => {
            let lines = File::open(lines)?;
            let state = whole(&lines)?;
            (&lines).rewind()?;
            Ok(if is_known(&state) {
                ReadPart::Nothing
            } else {
                ReadPart::Lines { lines: Box::new(lines), state }
            })
        }
    }
}

/// Return the bytes of a plain file behind those that were collected; all of them if these are no longer there, or may
/// not be: a file of the same size and ends that was written since then is read again.
fn appended(file: File, known: Option<&CatalogueEntry>) -> io::Result<ReadPart> {
    let facts = file.metadata()?;
    let size = facts.len();
    let is_same = |known: &&CatalogueEntry| {
        let complete = known.complete.filter(|&complete| complete <= size);
        complete.is_some_and(|complete| {
            ends(&file, complete).is_ok_and(|(head, tail)| head == known.head && tail == known.tail)
        })
    };
    let from = known.filter(is_same).and_then(|known| known.complete).unwrap_or_default();
    let to = end_of_lines(&file, from, size)?;
    let is_written = known.is_some_and(|known| {
        known.size == size && known.modified.is_some_and(|before| before != modified(&facts))
    });
    Ok(if to > from {
        ReadPart::Bytes { file, from, to }
    } else if is_written && to > 0 {
        ReadPart::Bytes { file, from: 0, to }
    } else {
        ReadPart::Nothing
    })
}

fn modified(facts: &Metadata) -> i64 {
    facts.mtime().saturating_mul(1_000_000_000).saturating_add(facts.mtime_nsec())
}

fn open(file: &AgentFile) -> io::Result<(File, Codec)> {
    let mut opened = File::open(&file.path)?;
    let mut magic = Vec::new();
    (&mut opened).take(MAGIC as u64).read_to_end(&mut magic)?;
    Ok((opened, Codec::of(&magic)))
}

fn whole(mut file: &File) -> io::Result<State> {
    file.rewind()?;
    let (mut hash, mut size, mut block) = (XxHash3_128::new(), 0, vec![0; BLOCK]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(State::of_all(hex(hash.finish_128()), size)),
            count => {
                hash.write(&block[..count]);
                size += count as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{document_lines, *};
    use std::io::Write;

    #[test]
    fn a_line_without_its_break_is_whole_if_it_is_an_object() {
        for (text, end) in [
            (&b"{}\n{}"[..], 5),
            (b"{}\n{\"a\": ", 3),
            (b"{}\n{\"a\": 1}  ", 13),
            (b"{}\n12", 3),
            (b"{}\n", 3),
            (b"{\"a", 0),
            (b"", 0),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text).unwrap();
            assert_eq!(end_of_lines(&file, 0, text.len() as u64).unwrap(), end, "{text:?}");
        }
    }

    #[test]
    fn a_document_is_its_keys_and_its_messages() {
        let text = br#"{"sessionId": "s", "messages": [{"id": 1.50}, {"id": "b"}], "lastUpdated": 2}"#;
        let wanted = "{\"sessionId\":\"s\",\"lastUpdated\":2}\n{\"id\":1.50}\n{\"id\":\"b\"}\n";
        assert_eq!(String::from_utf8(document_lines(text).unwrap()).unwrap(), wanted);
        assert_eq!(document_lines(b"[1]").unwrap(), b"[1]\n");
        assert!(document_lines(b"{\"messages\": [").is_err());
    }
}
