//! The second pass: the bytes of the chosen records, and only theirs.

use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use karl_core::rng::id128;

use crate::error::{Error, Result};
use crate::log::Log;
use crate::rows::Place;
use crate::scan::upper;
use crate::source::{Codec, Source, is_damage};
use crate::watch::Watch;

/// Reads records again, as they came; the result is in the order of `rows`.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read, [`Error::Changed`] if a record no longer has the bytes that were
/// scanned, [`Error::Draw`] for a row that the log does not have, [`Error::Interrupted`].
pub fn fetch(log: &Log, rows: &[u32], watch: &Watch) -> Result<Vec<Vec<u8>>> {
    let places = rows.iter().enumerate().map(|(at, &row)| place(log, at, row)).collect::<Result<Vec<_>>>()?;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_unstable_by_key(|&at| (places[at].input, places[at].offset));
    let mut records = vec![Vec::new(); rows.len()];
    for of_one_file in order.chunk_by(|&a, &b| places[a].input == places[b].input) {
        let source = &log.inputs[places[of_one_file[0]].input].source;
        let mut reader = Reader::open(source)?;
        let mut last = None;
        for &at in of_one_file {
            // A packed file is read forwards only: a row that is asked for again is copied.
            if let Some(same) = last.replace(at).filter(|&last| rows[last] == rows[at]) {
                let copy = records[same].clone();
                records[at] = copy;
                continue;
            }
            let place = places[at];
            let record = reader.record(place).map_err(|error| failure(source, place, error))?;
            if upper(id128(&record)) != log.digests[rows[at] as usize] {
                return Err(Error::Changed { path: source.path.clone(), offset: place.offset });
            }
            watch.advance(u64::from(place.length))?;
            records[at] = record;
        }
    }
    Ok(records)
}

fn place(log: &Log, index: usize, row: u32) -> Result<Place> {
    let refused = || karl_core::Error::Row { index, row: i64::from(row), count: log.len() };
    Ok(log.place(row).ok_or_else(refused)?)
}

fn failure(source: &Source, place: Place, error: io::Error) -> Error {
    if is_damage(&error) {
        return Error::Changed { path: source.path.clone(), offset: place.offset };
    }
    Error::io("read", &source.path, error)
}

/// A file read at rising offsets: at any place where it is plain, by unpacking again where it is packed.
enum Reader {
    Plain(std::fs::File),
    Packed { stream: Box<dyn Read + Send>, at: u64 },
}

impl Reader {
    fn open(source: &Source) -> Result<Self> {
        Ok(match source.codec {
            Codec::Plain => Self::Plain(source.reader_at(0)?),
            Codec::Gzip | Codec::Zstd => Self::Packed { stream: source.reader()?, at: 0 },
        })
    }

    fn record(&mut self, place: Place) -> io::Result<Vec<u8>> {
        let mut record = vec![0; place.length as usize];
        match self {
            Self::Plain(file) => {
                file.read_exact_at(&mut record, place.offset)?;
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
