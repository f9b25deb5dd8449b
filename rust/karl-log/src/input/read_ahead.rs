//! Prefetching reader: a thread reads and unpacks while the caller processes earlier bytes.
//!
//! Buys 6 % of the time of a zstd log and 3 % of a gzip log: two threads against one in
//! `benches/record/2026-11-23-linux-x86-64-2-cores.csv`.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::cancel::Watch;

/// Bytes handed over at a time: large enough that threads seldom wait for each other, small enough for a
/// cache.
const BLOCK: usize = 1 << 20;

/// Maximum number of prefetched blocks.
const AHEAD: usize = 2;

/// Interval at which a waiting reader checks for cancellation: the writer of a pipe may be silent for hours.
const TICK: Duration = Duration::from_millis(20);

/// Bytes of another reader, read by a thread that ends at their end, at an error, or when this is dropped.
/// After cancellation there are no more bytes, even while the thread is blocked in a read.
#[derive(Debug)]
pub(crate) struct ReadAhead<'w> {
    watch: &'w Watch,
    full: Receiver<io::Result<Chunk>>,
    empty: SyncSender<Chunk>,
    block: Chunk,
    at: usize,
    ended: bool,
}

/// Buffer with the number of bytes read; reused without being cleared.
#[derive(Debug, Default)]
struct Chunk {
    room: Vec<u8>,
    len: usize,
}

impl Chunk {
    /// Read until the buffer is full or the stream ends; bytes read before a failure stay.
    fn fill(&mut self, reader: &mut impl Read) -> io::Result<()> {
        self.room.resize(BLOCK, 0);
        self.len = 0;
        while self.len < BLOCK {
            match reader.read(&mut self.room[self.len..]) {
                Ok(0) => break,
                Ok(count) => self.len += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }
}

impl<'w> ReadAhead<'w> {
    pub(crate) fn new(reader: impl Read + Send + 'static, watch: &'w Watch) -> Self {
        let (give, full) = sync_channel(AHEAD);
        let (empty, used) = sync_channel(AHEAD + 2);
        thread::spawn(move || work(reader, &give, &used));
        Self { watch, full, empty, block: Chunk::default(), at: 0, ended: false }
    }

    /// Wait for the next block and return the last one to the thread.
    fn turn(&mut self) -> io::Result<()> {
        let next = loop {
            match self.full.recv_timeout(TICK) {
                Ok(next) => break next,
                Err(RecvTimeoutError::Disconnected) => break Err(io::ErrorKind::BrokenPipe.into()),
                Err(RecvTimeoutError::Timeout) if self.watch.is_stopped() => break Ok(Chunk::default()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        self.ended = next.as_ref().map_or(true, |block| block.len == 0);
        // The thread may have ended: the reader is at its end.
        let _unused = self.empty.try_send(std::mem::replace(&mut self.block, next?));
        self.at = 0;
        Ok(())
    }
}

impl Read for ReadAhead<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len && !self.ended {
            self.turn()?;
        }
        let count = self.block.bytes()[self.at..].as_ref().read(out)?;
        self.at += count;
        Ok(count)
    }
}

/// Read until the stream ends or the receiver is gone. An empty block marks the end; a failure comes after
/// the bytes before it.
fn work(mut reader: impl Read, give: &SyncSender<io::Result<Chunk>>, used: &Receiver<Chunk>) {
    loop {
        let mut block = used.try_recv().unwrap_or_default();
        let read = block.fill(&mut reader);
        let empty = block.len == 0;
        let more = (empty && read.is_err()) || give.send(Ok(block)).is_ok();
        match read {
            Ok(()) if more && !empty => {}
            Ok(()) => return,
            Err(error) => return drop(give.send(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test reader of small pieces, which then fails or ends.
    struct Source(usize, Option<io::ErrorKind>);

    impl Read for Source {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.0.min(out.len()).min(1000);
            if let (0, Some(kind)) = (count, self.1) {
                return Err(kind.into());
            }
            for byte in &mut out[..count] {
                *byte = u8::try_from(self.0 % 251).unwrap();
                self.0 -= 1;
            }
            Ok(count)
        }
    }

    #[test]
    fn what_comes_is_what_was_read_and_then_its_failure() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 9 * BLOCK + 7] {
            let mut wanted = Vec::new();
            Source(length, None).read_to_end(&mut wanted).unwrap();
            let mut got = Vec::new();
            let watch = Watch::new();
            assert_eq!(ReadAhead::new(Source(length, None), &watch).read_to_end(&mut got).unwrap(), length);
            assert!(got == wanted, "{length}");

            let mut got = Vec::new();
            let source = Source(length, Some(io::ErrorKind::InvalidData));
            let failed = ReadAhead::new(source, &watch).read_to_end(&mut got);
            assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert!(got == wanted, "{length}");
        }
    }

    #[test]
    fn a_reader_that_is_left_alone_ends() {
        struct Told(SyncSender<()>);
        impl Read for Told {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                Ok(out.len())
            }
        }
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let (told, ended) = sync_channel(1);
        let watch = Watch::new();
        let mut ahead = ReadAhead::new(Told(told), &watch);
        ahead.read_exact(&mut [0; 10]).unwrap();
        drop(ahead);
        ended.recv().unwrap();
    }

    #[test]
    fn a_reader_that_says_nothing_is_not_waited_for_once_nobody_wants_it() {
        struct Silent(Receiver<()>);
        impl Read for Silent {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                self.0.recv().map_or(Ok(0), |()| Ok(0))
            }
        }
        let (_held, silence) = sync_channel(1);
        let watch = Watch::new();
        let mut ahead = ReadAhead::new(Silent(silence), &watch);
        watch.stop();
        assert_eq!(ahead.read(&mut [0; 10]).unwrap(), 0);
    }

    #[test]
    fn a_reader_that_panics_is_no_end_of_file() {
        struct Panics;
        impl Read for Panics {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("meant")
            }
        }
        assert!(ReadAhead::new(Panics, &Watch::new()).read(&mut [0; 10]).is_err());
    }
}
