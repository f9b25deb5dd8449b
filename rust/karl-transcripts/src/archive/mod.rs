//! Archive of what agents wrote, kept beyond the agents' own deletion.
//!
//! ```text
//! agents' files ──► new bytes, or lines that are not there yet ──► a zstd frame behind the others ──► catalogue
//!                   by offset       after a rewrite                 ARCHIVE/agent/.../name.jsonl.zst  one line
//! ```
//!
//! A file of the archive grows by one frame a collection and is never rewritten. The catalogue has one line a frame,
//! written when the frame is on the disk: a frame without a line was cut short by a kill or a full disk, and what it
//! holds is taken over by the next collection. Nothing here depends on the clock: a file is compared by its bytes.

mod catalogue;
mod member;
mod source;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::thread;
use std::time::Duration;

use karl_core::rng::id128;
use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};

use self::catalogue::Lock;
pub use self::catalogue::{CATALOGUE, Catalogue, CatalogueEntry};
use self::member::{ArchiveFault, ArchiveMember, WrittenFrame, each_line};
pub use self::source::{AgentFile, FileForm};
use self::source::{BLOCK, END, ReadPart, State, ends, hex, identity, is_record, lines_of, part};
use crate::git::{Snapshot, snapshot};

/// Add what is new in the agents' files to an archive.
///
/// # Errors
/// [`Error::Io`] if the archive cannot be written; [`Error::Taken`] if another collection holds it for more than a
/// minute; [`Error::Foreign`] for a folder that is not an archive; [`Error::Layout`] for a damaged catalogue;
/// [`Error::Interrupted`]. What was collected before the error is kept.
pub fn collect(files: &[AgentFile], archive: &Path, watch: &Watch) -> Result<Collected> {
    std::fs::create_dir_all(archive).map_err(|error| Error::io("make the folder", archive, error))?;
    let _lock = Lock::acquire(archive, watch)?;
    let mut collector = Collector::new(archive, Catalogue::open(archive)?, watch);
    watch.expect(files.iter().map(AgentFile::size).sum());
    let collected = files.iter().try_for_each(|file| collector.collect(file));
    // What was collected before a failure is kept.
    let kept = collector.write_catalogue();
    collected.and(kept)?;
    Ok(collector.report)
}

/// Account of a collection: `files` = `grown` + `unchanged` + the failed ones.
#[derive(Debug, Default)]
pub struct Collected {
    /// Files looked at.
    pub files: u64,
    /// Files of which something was new.
    pub grown: u64,
    /// Files of which nothing was new.
    pub unchanged: u64,
    /// Files read again from their start, because they were rewritten, moved or packed.
    pub reread: u64,
    /// Lines added.
    pub lines: u64,
    /// Lines of files read again that the archive has already.
    pub duplicates: u64,
    /// Bytes added, unpacked.
    pub bytes: u64,
    /// Bytes added, packed.
    pub packed_bytes: u64,
    /// Files that could not be read, each with the reason.
    pub failed: Vec<(String, String)>,
}

/// Entries written to the catalogue at once.
const BATCH: usize = 32;

/// Tries, and time between them, to read a file that changes while it is read.
const TRIES: (usize, Duration) = (5, Duration::from_millis(10));

/// Shortest record in bytes that identifies a file: a shorter one may be in any file.
const RECORD: usize = 32;

/// Suffix of the archive's files.
const SUFFIX: &str = ".zst";

/// Work of one collection.
struct Collector<'a> {
    archive: &'a Path,
    catalogue: Catalogue,
    watch: &'a Watch,
    snapshots: HashMap<String, Snapshot>,
    report: Collected,
}

type Outcome<T> = std::result::Result<T, ArchiveFault>;

impl<'a> Collector<'a> {
    fn new(archive: &'a Path, catalogue: Catalogue, watch: &'a Watch) -> Self {
        Self { archive, catalogue, watch, snapshots: HashMap::new(), report: Collected::default() }
    }

    /// Collect what is new in a file. One that cannot be read is counted.
    ///
    /// # Errors
    /// As [`collect`].
    fn collect(&mut self, file: &AgentFile) -> Result<()> {
        self.report.files += 1;
        match self.add_with_retries(file) {
            Ok(true) => self.report.grown += 1,
            Ok(false) => self.report.unchanged += 1,
            Err(fault) if fault.is_absent() => self.report.unchanged += 1,
            Err(ArchiveFault::Read(error)) => self.fail(file, error.to_string()),
            Err(ArchiveFault::Archive(error @ Error::Layout { .. })) => self.fail(file, error.to_string()),
            Err(ArchiveFault::Archive(error)) => return Err(error),
            Err(ArchiveFault::Write(error)) => return Err(Error::io("write", self.archive, error)),
        }
        if self.catalogue.pending() >= BATCH { self.write_catalogue() } else { Ok(()) }
    }

    /// Write the entries of what was collected.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn write_catalogue(&mut self) -> Result<()> {
        self.catalogue.write()
    }

    fn fail(&mut self, file: &AgentFile, why: String) {
        self.report.failed.push((file.shown().into_owned(), why));
    }

    /// Add what is new; try again where the file changes at that moment.
    fn add_with_retries(&mut self, file: &AgentFile) -> Outcome<bool> {
        for _ in 1..TRIES.0 {
            match self.add(file) {
                Err(fault) if fault.is_transient() => thread::sleep(TRIES.1),
                added => return added,
            }
        }
        self.add(file)
    }

    /// Add what is new; return whether anything was.
    fn add(&mut self, file: &AgentFile) -> Outcome<bool> {
        let path = file.shown();
        let path = &*path;
        let first_line = identity(file)?;
        let known = self.catalogue.latest(path).cloned();
        let url = match &known {
            Some(known) if known.first_line != first_line && self.is_rewritten(file, known)? => {
                known.url.clone()
            }
            known => self.url(file, path, known.as_ref(), &first_line),
        };
        let known = known.filter(|known| known.url == url);
        let part = part(file, known.as_ref())?;
        if matches!(part, ReadPart::Nothing) {
            return Ok(false);
        }
        let committed = self.catalogue.committed(&url);
        let mut member = ArchiveMember::open(self.archive.join(&url), committed.unwrap_or_default())?;
        let mut entry = known.or_else(|| self.catalogue.of_url(&url).cloned()).unwrap_or_default();
        entry = CatalogueEntry { agent: file.agent.clone(), path: path.to_owned(), first_line, url, ..entry };
        entry.offset = committed.unwrap_or_default();
        let is_recovered = self.add_recovered_entry(&mut entry, &mut member);
        let (written, state) = match part {
            ReadPart::Bytes { file, from, to }
                if is_recovered || entry.is_mixed || (from == 0 && committed.is_some()) =>
            {
                self.merge_bytes(&mut member, &file, if is_recovered { 0 } else { from }, to)?
            }
            ReadPart::Bytes { file, from, to } => self.copy(&mut member, &file, from, to)?,
            ReadPart::Lines { lines, state } => {
                let (written, _) = self.merge(&mut member, lines)?;
                member.accept()?;
                (written, state)
            }
            ReadPart::Nothing => return Ok(is_recovered),
        };
        entry.length = member.end - entry.offset;
        let has_grown = entry.length > 0;
        self.add_entry(entry, state, written);
        Ok(has_grown || is_recovered)
    }

    /// Return whether a file whose first line is another now still has a record that the archive has of it: the
    /// agent rewrote it, and no other file took its name.
    fn is_rewritten(&self, file: &AgentFile, known: &CatalogueEntry) -> Outcome<bool> {
        let committed = self.catalogue.committed(&known.url).unwrap_or_default();
        if file.form != FileForm::Lines || committed == 0 {
            return Ok(false);
        }
        let held = ArchiveMember::open(self.archive.join(&known.url), committed)?.lines()?.seen;
        let mut is_held = false;
        each_line(lines_of(file)?, |line, _| {
            is_held |= line.len() >= RECORD && is_record(line) && held.contains_key(&id128(line));
            std::io::Result::Ok(())
        })?;
        Ok(is_held)
    }

    /// Return the file of the archive that takes the lines of an agent's file.
    fn url(&self, file: &AgentFile, path: &str, known: Option<&CatalogueEntry>, first_line: &str) -> String {
        let same = known.filter(|known| known.first_line == first_line).map(|known| known.url.as_str());
        if let Some(url) = same.or_else(|| self.catalogue.stream(path, first_line)) {
            return url.to_owned();
        }
        let (stem, suffix) = file.name.rsplit_once('.').unwrap_or((&file.name, "jsonl"));
        let (mut url, mut number) = (format!("{stem}.{suffix}{SUFFIX}"), 1);
        // A file that takes the name of another gets a file of its own.
        while self.catalogue.committed(&url).is_some() {
            number += 1;
            url = format!("{stem}.{number}.{suffix}{SUFFIX}");
        }
        url
    }

    /// Enter frames taken over from a killed collection; return whether there are any.
    fn add_recovered_entry(&mut self, entry: &mut CatalogueEntry, member: &mut ArchiveMember) -> bool {
        let Some(written) = member.recovered.take() else { return false };
        let recovered = CatalogueEntry { length: member.end - entry.offset, ..entry.clone() };
        entry.offset = member.end;
        self.add_entry(recovered, State::default(), written);
        true
    }

    /// Copy bytes that were appended, or all of a new file.
    fn copy(
        &self,
        member: &mut ArchiveMember,
        file: &File,
        from: u64,
        to: u64,
    ) -> Outcome<(WrittenFrame, State)> {
        let before = ends(file, from)?;
        let mut last = Vec::new();
        let written = member.append(|frame| {
            let mut at = file;
            at.seek(SeekFrom::Start(from))?;
            let (mut rest, mut block) = (at.take(to - from), vec![0; BLOCK]);
            loop {
                let count = rest.read(&mut block)?;
                if count == 0 {
                    return Ok(());
                }
                self.watch.advance(count as u64)?;
                frame.write(&block[..count])?;
                keep_tail(&mut last, &block[..count]);
            }
        })?;
        let is_same = written.bytes == to - from
            && ends(file, from).is_ok_and(|now| now == before)
            && State::of(file, to).is_ok_and(|state| last.len() < END || state.tail == hex(id128(&last)));
        accept_frame(member, file, to, written, is_same)
    }

    /// Read lines that may be there already, and add those that are not.
    fn merge_bytes(
        &mut self,
        member: &mut ArchiveMember,
        file: &File,
        from: u64,
        to: u64,
    ) -> Outcome<(WrittenFrame, State)> {
        let before = ends(file, to)?;
        let mut at = file;
        at.seek(SeekFrom::Start(from))?;
        let (written, has_all) = self.merge(member, at.take(to - from))?;
        let is_same = ends(file, to).is_ok_and(|now| now == before);
        let (written, state) = accept_frame(member, file, to, written, is_same)?;
        Ok((written, State { is_mixed: from > 0 || !has_all, ..state }))
    }

    /// Write the lines of a stream that the archive does not have; return also whether the stream has all lines of
    /// the archive.
    fn merge(&mut self, member: &mut ArchiveMember, stream: impl Read) -> Outcome<(WrittenFrame, bool)> {
        let mut lines = member.lines()?;
        let (mut unmatched, mut duplicates) = (lines.seen.len(), 0);
        self.report.reread += u64::from(unmatched > 0);
        let written = member.append(|frame| {
            each_line(stream, |line, _| {
                self.watch.advance(line.len() as u64 + 1)?;
                if let Some(is_matched) = lines.seen.insert(id128(line), true) {
                    duplicates += 1;
                    unmatched -= usize::from(!is_matched);
                    return Ok(());
                }
                if std::mem::take(&mut lines.is_open) {
                    frame.write(b"\n")?;
                }
                frame.write(line)?;
                frame.write(b"\n")
            })
        })?;
        self.report.duplicates += duplicates;
        Ok((written, unmatched == 0))
    }

    /// Add an entry of a frame.
    fn add_entry(&mut self, entry: CatalogueEntry, state: State, written: WrittenFrame) {
        self.report.lines += written.lines;
        self.report.bytes += written.bytes;
        self.report.packed_bytes += entry.length;
        let facts = written.facts;
        let id = facts.id.or(entry.id);
        let directory = facts.directory.or(entry.directory);
        let repository = match &directory {
            Some(directory) if entry.length > 0 => self.snapshot(directory),
            _ => entry.repository,
        };
        self.catalogue.push(CatalogueEntry {
            size: state.size,
            modified: state.modified,
            head: state.head,
            tail: state.tail,
            complete: state.complete,
            is_mixed: state.is_mixed,
            bytes: written.bytes,
            lines: written.lines,
            fingerprint: hex(written.fingerprint),
            id128: id.as_ref().map(|id| hex(id128(id.as_bytes()))),
            id,
            parent: facts.parent.or(entry.parent),
            pull_request: facts.pull_request.or(entry.pull_request),
            directory,
            repository,
            ..entry
        });
    }

    /// Return the state of the repository of a folder, which is looked up once a collection.
    fn snapshot(&mut self, directory: &str) -> Snapshot {
        if let Some(known) = self.snapshots.get(directory) {
            return known.clone();
        }
        let path = Path::new(directory);
        let is_here = path.is_absolute() && path.is_dir();
        let found = is_here.then(|| snapshot(path, self.watch).ok()).flatten().unwrap_or_default();
        self.snapshots.insert(directory.to_owned(), found.clone());
        found
    }
}

/// Accept a frame. Of a file that changed while it was read, keep the whole records; the next collection reads it
/// again.
fn accept_frame(
    member: &mut ArchiveMember,
    file: &File,
    to: u64,
    written: WrittenFrame,
    is_same: bool,
) -> Outcome<(WrittenFrame, State)> {
    match State::of(file, to) {
        Ok(state) if is_same => {
            member.accept()?;
            Ok((written, state))
        }
        _ => Ok((member.salvage()?, State::default())),
    }
}

/// Keep the last bytes of a stream.
fn keep_tail(last: &mut Vec<u8>, block: &[u8]) {
    last.extend_from_slice(&block[block.len().saturating_sub(END)..]);
    let surplus = last.len().saturating_sub(END);
    last.drain(..surplus);
}
