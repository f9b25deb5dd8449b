//! Part of an agent's file that a collection has to read.

use std::fs::{self, File, Metadata};
use std::io::{self, Cursor, Read, Seek};
use std::os::unix::fs::MetadataExt;

use karl_core::rng::id128;
use karl_log::input::codec::unpacked;
use karl_log::input::codec::{Codec, MAGIC};
use twox_hash::XxHash3_128;

use super::catalogue::CatalogueEntry;
use super::document;
use super::source::{AgentFile, BLOCK, FileForm, end_of_lines, ends, first_line, hex};

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
            Ok(ReadPart::Lines { lines: Box::new(Cursor::new(document::lines(&text)?)), state })
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
