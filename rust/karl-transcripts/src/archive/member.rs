//! File of an archive: zstd frames, each on the disk before the catalogue has an entry of it, with the facts about
//! the session in their lines.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use karl_core::rng::id128;
use karl_log::atomic_output::sync;
use karl_log::error::{Error, Result};
use karl_log::input::codec::{Codec, undamaged, unpacked};
use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter};
use serde::Deserialize;
use serde_json::Value;
use twox_hash::XxHash3_128;
use zstd::Encoder;

use super::source::{BLOCK, is_record};

/// File of an archive, open at its end.
pub(super) struct ArchiveMember {
    path: PathBuf,
    file: File,
    /// End of the frames that are whole.
    pub(super) end: u64,
    /// Content of frames taken over from a collection that was killed.
    pub(super) recovered: Option<WrittenFrame>,
}

/// Lines of the whole frames.
pub(super) struct MemberLines {
    /// Their hashes, and whether the agent's file has the line too.
    pub(super) seen: HashMap<u128, bool>,
    /// Whether the last one has no line break.
    pub(super) is_open: bool,
}

impl ArchiveMember {
    /// Open or make a file; take over what a killed collection left behind the bytes that have entries.
    pub(super) fn open(path: PathBuf, committed: u64) -> Result<Self> {
        let io = |error| Error::io("write", &path, error);
        if let Some(folder) = path.parent().filter(|_| committed == 0) {
            make_folders(folder).map_err(io)?;
        }
        let mut options = File::options();
        let file =
            options.create(committed == 0).truncate(false).read(true).write(true).open(&path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        if size < committed {
            return Err(damaged(
                path,
                &format!("it has {size} bytes, wanted the {committed} of the catalogue"),
            ));
        }
        let mut member = Self { path, file, end: committed, recovered: None };
        if size > committed {
            member.recovered = Some(member.recover(size)?);
        }
        Ok(member)
    }

    /// Take over frames without an entry: as they are if they are whole, else the whole records in them.
    fn recover(&mut self, size: u64) -> Result<WrittenFrame> {
        let frames = self.part(self.end, size).and_then(|frames| unpacked(frames, Codec::Zstd));
        match frames.and_then(read) {
            Ok(written) => {
                self.end = size;
                Ok(written)
            }
            Err(_) => self.salvage(),
        }
    }

    /// Replace what follows the whole frames by the whole records in it that are not in these.
    pub(super) fn salvage(&mut self) -> Result<WrittenFrame> {
        let io = |error| Error::io("read", &self.path, error);
        let (mut kept, mut lines) = (Vec::new(), self.lines()?);
        let all = undamaged(&self.path, Codec::Zstd).map_err(io)?;
        each_line(all, |line, _| {
            if is_record(line) && lines.seen.insert(id128(line), false).is_none() {
                kept.extend_from_slice(if lines.is_open { b"\n" } else { b"" });
                kept.extend_from_slice(line);
                kept.push(b'\n');
                lines.is_open = false;
            }
            io::Result::Ok(())
        })
        .map_err(io)?;
        self.cut()?;
        let written = self.append(|frame| if kept.is_empty() { Ok(()) } else { frame.write(&kept) });
        self.accept()?;
        written.map_err(|fault| match fault {
            ArchiveFault::Archive(error) => error,
            ArchiveFault::Read(error) | ArchiveFault::Write(error) => self.failed(error),
        })
    }

    /// Read the lines of the whole frames.
    pub(super) fn lines(&self) -> Result<MemberLines> {
        let mut lines = MemberLines { seen: HashMap::new(), is_open: false };
        if self.end == 0 {
            return Ok(lines);
        }
        let frames = self.part(0, self.end).and_then(|frames| unpacked(frames, Codec::Zstd));
        let read = frames.and_then(|frames| {
            each_line(frames, |line, is_ended| {
                lines.seen.insert(id128(line), false);
                lines.is_open = !is_ended;
                Ok(())
            })
        });
        read.map_err(|error| damaged(self.path.clone(), &error.to_string()))?;
        Ok(lines)
    }

    fn part(&self, from: u64, to: u64) -> io::Result<io::Take<File>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(from))?;
        Ok(file.take(to - from))
    }

    /// Write a frame behind the others, and sync it. If that fails, nothing of it stays.
    pub(super) fn append(
        &mut self,
        fill: impl FnOnce(&mut OpenFrame<'_>) -> std::result::Result<(), ArchiveFault>,
    ) -> std::result::Result<WrittenFrame, ArchiveFault> {
        let written = self.frame(fill);
        if written.is_err() {
            // Best effort: the next collection takes over what stays.
            let _ = self.cut();
        }
        written.map_err(|fault| match fault {
            ArchiveFault::Write(error) => self.failed(error).into(),
            fault => fault,
        })
    }

    fn frame(
        &self,
        fill: impl FnOnce(&mut OpenFrame<'_>) -> std::result::Result<(), ArchiveFault>,
    ) -> std::result::Result<WrittenFrame, ArchiveFault> {
        (&self.file).seek(SeekFrom::Start(self.end)).map_err(ArchiveFault::Write)?;
        let mut frame = OpenFrame::new(&self.file);
        fill(&mut frame)?;
        let written = frame.end()?;
        self.file.sync_data().map_err(ArchiveFault::Write)?;
        Ok(written)
    }

    /// Count the frame that was written as whole.
    pub(super) fn accept(&mut self) -> Result<()> {
        self.end = self.file.metadata().map_err(|error| self.failed(error))?.len();
        Ok(())
    }

    /// Remove what follows the whole frames.
    fn cut(&self) -> Result<()> {
        self.file.set_len(self.end).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io("write", &self.path, error)
    }
}

fn damaged(path: PathBuf, problem: &str) -> Error {
    let problem = format!("{problem}; restore it from a backup, or collect into another folder");
    Error::Layout { path, problem }
}

/// Make folders, and sync the parent of each: a file must not be lost with its folder after its entry is written.
fn make_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_folders(parent)?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => sync(parent)?,
        }
    }
    Ok(())
}

/// Call a function with each line that is not blank, and whether it has a line break.
pub(super) fn each_line<E: From<io::Error>>(
    stream: impl Read,
    mut take: impl FnMut(&[u8], bool) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut reader = BufReader::with_capacity(1 << 18, stream);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = line.trim_ascii();
        if !text.is_empty() {
            take(text, line.ends_with(b"\n"))?;
        }
        line.clear();
    }
    Ok(())
}

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

    pub(super) fn write(&mut self, bytes: &[u8]) -> std::result::Result<(), ArchiveFault> {
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
    pub(super) fn end(self) -> std::result::Result<WrittenFrame, ArchiveFault> {
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

/// Longer lines are not parsed: they hold results of tools, not facts about the session.
const LONGEST: usize = 1 << 20;

/// Facts about a session.
#[derive(Debug, Default)]
pub(super) struct SessionFacts {
    /// Session.
    pub(super) id: Option<String>,
    /// Session that started this one.
    pub(super) parent: Option<String>,
    /// Working directory.
    pub(super) directory: Option<String>,
    /// Last pull request.
    pub(super) pull_request: Option<String>,
}

/// Lines that pass by, with the part of the last one.
pub(super) struct FactScanner {
    pub(super) facts: SessionFacts,
    part: Vec<u8>,
    directory: Finder<'static>,
    link: Finder<'static>,
}

/// Keys of a line that name its session and where it works: Claude Code and Gemini CLI in the line, Codex in
/// its payload, Copilot CLI in its data.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    #[serde(rename = "type")]
    kind: Value,
    #[serde(rename = "sessionId", alias = "session_id")]
    session: Value,
    #[serde(rename = "agentId")]
    agent: Value,
    cwd: Value,
    #[serde(rename = "prUrl")]
    link: Value,
    payload: Value,
    data: Value,
}

impl FactScanner {
    pub(super) fn new() -> Self {
        Self {
            facts: SessionFacts::default(),
            part: Vec::new(),
            directory: Finder::new(br#""cwd""#),
            link: Finder::new(br#""pr-link""#),
        }
    }

    /// Return whether the last line has no line break yet.
    pub(super) fn is_inside(&self) -> bool {
        !self.part.is_empty()
    }

    /// Take the next bytes.
    pub(super) fn scan(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            if self.part.is_empty() {
                self.line(&bytes[..end]);
            } else {
                self.keep(&bytes[..end]);
                let part = std::mem::take(&mut self.part);
                self.line(&part);
            }
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = (LONGEST + 1).saturating_sub(self.part.len());
        self.part.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn line(&mut self, line: &[u8]) {
        let is_wanted = self.link.find(line).is_some()
            || (self.facts.directory.is_none() && self.directory.find(line).is_some());
        if line.len() <= LONGEST
            && is_wanted
            && let Ok(keys) = serde_json::from_slice(line)
        {
            self.facts.take(&keys);
        }
    }
}

impl SessionFacts {
    fn take(&mut self, keys: &Keys) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let own = |key: &str| text(&keys.payload[key]).or_else(|| text(&keys.data[key]));
        if keys.kind == "pr-link" {
            self.pull_request = text(&keys.link).or_else(|| self.pull_request.take());
        }
        let cwd = text(&keys.cwd).or_else(|| own("cwd")).or_else(|| text(&keys.data["context"]["cwd"]));
        self.directory = self.directory.take().or(cwd);
        if self.id.is_some() {
            return;
        }
        let session = text(&keys.session).or_else(|| own("id")).or_else(|| own("sessionId"));
        (self.id, self.parent) = match text(&keys.agent) {
            Some(agent) => (session.as_ref().map(|session| format!("{session}/{agent}")), session),
            None => (session, parent(&keys.payload)),
        };
    }
}

/// Return the session that started a sub-agent of Codex.
fn parent(payload: &Value) -> Option<String> {
    let spawned = &payload["source"]["subagent"]["thread_spawn"]["parent_thread_id"];
    [&payload["parent_thread_id"], spawned].into_iter().find_map(Value::as_str).map(str::to_owned)
}

/// Fault of the agent's file, which leaves it to the next collection, or of the archive, which ends this one.
#[derive(Debug)]
pub(super) enum ArchiveFault {
    /// The agent's file cannot be read.
    Read(io::Error),
    /// The archive's file cannot be written.
    Write(io::Error),
    /// Any other that ends the collection.
    Archive(Error),
}

impl From<io::Error> for ArchiveFault {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<Error> for ArchiveFault {
    fn from(error: Error) -> Self {
        Self::Archive(error)
    }
}

impl ArchiveFault {
    /// Return whether the file may be read a moment later: it changed while it was read.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, Self::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof)
    }

    /// Return whether the agent removed the file.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Read(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::FactScanner;

    #[test]
    fn facts_are_found_wherever_a_block_ends() {
        let text = concat!(
            r#"{"type":"user","sessionId":"s","cwd":"/w","uuid":"u"}"#,
            "\n",
            r#"{"type":"pr-link","sessionId":"s","prUrl":"https://h/pull/1"}"#,
            "\n"
        );
        for cut in 0..text.len() {
            let mut scanner = FactScanner::new();
            scanner.scan(&text.as_bytes()[..cut]);
            scanner.scan(&text.as_bytes()[cut..]);
            let facts = scanner.facts;
            assert_eq!(facts.id.as_deref(), Some("s"));
            assert_eq!(facts.directory.as_deref(), Some("/w"));
            assert_eq!(facts.pull_request.as_deref(), Some("https://h/pull/1"));
        }
    }

    #[test]
    fn a_sub_agent_names_its_parent() {
        for (line, id, parent) in [
            (r#"{"type":"user","sessionId":"s","agentId":"a","cwd":"/"}"#, "s/a", Some("s")),
            (
                r#"{"type":"session_meta","payload":{"id":"c","cwd":"/","source":{"subagent":{"thread_spawn":{"parent_thread_id":"p"}}}}}"#,
                "c",
                Some("p"),
            ),
            (
                r#"{"type":"session_meta","payload":{"id":"c","cwd":"/","parent_thread_id":"q"}}"#,
                "c",
                Some("q"),
            ),
            (r#"{"type":"session_meta","payload":{"id":"c","cwd":"/","source":"cli"}}"#, "c", None),
            (r#"{"type":"session.start","data":{"sessionId":"c","context":{"cwd":"/"}}}"#, "c", None),
        ] {
            let mut scanner = FactScanner::new();
            scanner.scan(format!("{line}\n").as_bytes());
            assert_eq!(scanner.facts.id.as_deref(), Some(id));
            assert_eq!(scanner.facts.parent.as_deref(), parent);
            assert_eq!(scanner.facts.directory.as_deref(), Some("/"));
        }
    }
}
