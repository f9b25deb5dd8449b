//! The second pass: the bytes of the chosen records, and only theirs.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use karl_core::rng::id128;

use crate::error::{Error, Result};
use crate::log::{Log, Place};
use crate::source::{Codec, Source, Stream, is_damage};
use crate::watch::Watch;

/// Reads records again, as they came; the result is in the order of `rows`.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read, [`Error::Changed`] if a record no longer has the bytes that were
/// scanned, [`Error::Draw`] for a row that the log does not have, [`Error::Interrupted`].
pub fn fetch(log: &Log, rows: &[u32], watch: &Watch) -> Result<Vec<Vec<u8>>> {
    check(rows, log.len())?;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let place = |at: usize| log.places[rows[at] as usize];
    order.sort_unstable_by_key(|&at| (place(at).input, place(at).offset));
    let mut records = vec![Vec::new(); rows.len()];
    for of_one_file in order.chunk_by(|&a, &b| place(a).input == place(b).input) {
        let source = &log.inputs[place(of_one_file[0]).input as usize].source;
        let first = place(of_one_file[0]);
        let mut reader =
            Reader::open(source, watch).map_err(|error| failure("open", source, first, error))?;
        let mut last = None;
        for &at in of_one_file {
            // A packed file is read forwards only: a row that is asked for again is copied.
            if let Some(same) = last.replace(at).filter(|&last| rows[last] == rows[at]) {
                let copy = records[same].clone();
                records[at] = copy;
                continue;
            }
            let place = place(at);
            let record = reader.record(place);
            watch.advance(0)?;
            let record = record.map_err(|error| failure("read", source, place, error))?;
            if id128(&record) != log.digests[rows[at] as usize] {
                return Err(Error::Changed { path: source.path.clone(), offset: place.offset });
            }
            watch.advance(u64::from(place.length))?;
            records[at] = record;
        }
    }
    Ok(records)
}

fn check(rows: &[u32], count: usize) -> Result<()> {
    match rows.iter().position(|&row| row as usize >= count) {
        None => Ok(()),
        Some(index) => Err(karl_core::Error::Row { index, row: i64::from(rows[index]), count }.into()),
    }
}

/// A file that is gone or ends early is no longer what it was.
fn failure(doing: &'static str, source: &Source, place: Place, error: io::Error) -> Error {
    if is_damage(&error) || error.kind() == io::ErrorKind::NotFound {
        return Error::Changed { path: source.path.clone(), offset: place.offset };
    }
    Error::io(doing, &source.path, error)
}

/// A file read at rising offsets: by seeking where it is plain, by unpacking again where it is packed.
enum Reader<'w> {
    Plain(File),
    Packed { stream: Stream<'w>, at: u64 },
}

impl<'w> Reader<'w> {
    fn open(source: &Source, watch: &'w Watch) -> io::Result<Self> {
        Ok(match source.codec {
            Codec::Plain => Self::Plain(File::open(&source.path)?),
            Codec::Gzip | Codec::Zstd => Self::Packed { stream: source.stream(watch)?, at: 0 },
        })
    }

    fn record(&mut self, place: Place) -> io::Result<Vec<u8>> {
        let mut record = vec![0; place.length as usize];
        match self {
            Self::Plain(file) => {
                file.seek(SeekFrom::Start(place.offset))?;
                file.read_exact(&mut record)?;
            }
            Self::Packed { stream, at } => {
                io::copy(&mut stream.take(place.offset - *at), &mut io::sink())?;
                stream.read_exact(&mut record)?;
                *at = place.offset + u64::from(place.length);
            }
        }
        Ok(record)
    }
}
