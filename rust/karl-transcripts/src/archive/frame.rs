//! One zstd frame while it is written.

use std::fs::File;
use std::io::{self, Read, Write};

use memchr::memchr_iter;
use twox_hash::XxHash3_128;
use zstd::Encoder;

use super::fault::ArchiveFault;
use super::line_facts::{FactScanner, SessionFacts};
use super::source::BLOCK;

/// Level of compression: that of zstd by default.
const LEVEL: i32 = 3;

/// Frame at the end of a file; there is none until something is written.
pub(super) struct OpenFrame<'f> {
    file: &'f File,
    encoder: Option<Encoder<'static, &'f File>>,
    tally: Tally,
}

/// Content of a frame that was written.
#[derive(Default)]
pub(super) struct WrittenFrame {
    pub(super) bytes: u64,
    pub(super) lines: u64,
    pub(super) fingerprint: u128,
    pub(super) facts: SessionFacts,
}

impl<'f> OpenFrame<'f> {
    pub(super) fn new(file: &'f File) -> Self {
        Self { file, encoder: None, tally: Tally::new() }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveFault> {
        if self.encoder.is_none() {
            self.encoder = Some(encoder(self.file).map_err(ArchiveFault::Write)?);
        }
        if let Some(encoder) = &mut self.encoder {
            encoder.write_all(bytes).map_err(ArchiveFault::Write)?;
        }
        self.tally.add(bytes);
        Ok(())
    }

    /// End the frame.
    pub(super) fn end(self) -> Result<WrittenFrame, ArchiveFault> {
        if let Some(encoder) = self.encoder {
            encoder.finish().map_err(ArchiveFault::Write)?;
        }
        Ok(self.tally.end())
    }
}

fn encoder(file: &File) -> io::Result<Encoder<'static, &File>> {
    let mut encoder = Encoder::new(file, LEVEL)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

/// Counts, hash and facts of bytes that pass by.
struct Tally {
    hash: XxHash3_128,
    scanner: FactScanner,
    bytes: u64,
    lines: u64,
}

impl Tally {
    fn new() -> Self {
        Self { hash: XxHash3_128::new(), scanner: FactScanner::new(), bytes: 0, lines: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hash.write(bytes);
        self.scanner.scan(bytes);
        self.bytes += bytes.len() as u64;
        self.lines += memchr_iter(b'\n', bytes).count() as u64;
    }

    fn end(mut self) -> WrittenFrame {
        // A last line without its line break is one too.
        self.lines += u64::from(self.scanner.is_inside());
        self.scanner.scan(b"\n");
        let (fingerprint, facts) = (self.hash.finish_128(), self.scanner.facts);
        WrittenFrame { bytes: self.bytes, lines: self.lines, fingerprint, facts }
    }
}

/// Read frames that were written.
pub(super) fn read(mut frames: impl Read) -> io::Result<WrittenFrame> {
    let (mut tally, mut block) = (Tally::new(), vec![0; BLOCK]);
    loop {
        match frames.read(&mut block)? {
            0 => return Ok(tally.end()),
            count => tally.add(&block[..count]),
        }
    }
}
