//! Hash of an input file for the manifest, so that a data set can be traced to its logs.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use twox_hash::XxHash3_128;

use super::source::Source;
use crate::cancel::Watch;
use crate::error::Result;

/// Bytes hashed at either end of a file.
pub const END: u64 = 1 << 20;

/// Return the XXH3-128 of a file's packed bytes as 32 hexadecimal digits: of the first and the last MiB (the
/// whole file if it is no longer than both), or of all of it.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if it cannot be read, [`Error::Changed`](crate::Error::Changed) if it is
/// gone, [`Error::Interrupted`](crate::Error::Interrupted).
pub fn hash(source: &Source, whole: bool, watch: &Watch) -> Result<String> {
    let io = |error| source.failed("read", error);
    let mut file = File::open(&source.path).map_err(|error| source.lost("open", 0, error))?;
    let mut hasher = XxHash3_128::new();
    if whole || source.size <= 2 * END {
        // Bytes that a growing file gained since it was opened were not read.
        feed(&mut hasher, &mut file.take(source.size), source, watch)?;
    } else {
        feed(&mut hasher, &mut (&mut file).take(END), source, watch)?;
        file.seek(SeekFrom::Start(source.size - END)).map_err(io)?;
        feed(&mut hasher, &mut file.take(END), source, watch)?;
    }
    Ok(format!("{:032x}", hasher.finish_128()))
}

fn feed(hasher: &mut XxHash3_128, reader: &mut dyn Read, source: &Source, watch: &Watch) -> Result<()> {
    let mut block = vec![0; 1 << 18];
    loop {
        match reader.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) => hasher.write(&block[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(source.failed("read", error)),
        }
        watch.advance(0)?;
    }
}
