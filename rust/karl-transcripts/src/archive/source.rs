//! Agent's file: its form, and comparisons of its bytes with those that were collected.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use karl_core::rng::id128;
use memchr::memrchr;
use serde::de::IgnoredAny;

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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

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
}
