//! Account of a conversion.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use karl_log::log::Account;
use karl_log::rejects::{Bad, FileTally};
use karl_redact::secrets;

/// Maximum number of line types reported by name: a log may have any number.
const TYPES_TOLD: usize = 64;

/// Maximum length of a reported type name, in bytes.
const TYPE_LENGTH: usize = 64;

/// Name for all further types.
const OTHER: &str = "(other)";

/// Reason for lines that are neither a message nor a part of one.
pub(super) const NO_CONVERSATION: &str = "no_conversation";

/// Reason for the text in place of a prompt after the user stopped the model.
pub(super) const INTERRUPTION: &str = "interruption";

/// Reason for what the user took back.
pub(super) const OTHER_BRANCH: &str = "other_branch";

/// Reason for empty content.
pub(super) const EMPTY: &str = "empty";

/// Reason for a line with only non-text blocks; name under which such a block is counted.
pub(super) const NO_TEXT: &str = "no_text";

/// Name under which blocks of unknown kinds are counted.
pub(super) const UNKNOWN_BLOCK: &str = "unknown_block";

/// Reason for a line with a damaged message.
pub(super) const DAMAGED: &str = "damaged";

/// Maximum number of mistyped values reported with their places; all are counted.
const MISTYPED_TOLD: usize = 100;

/// Value of another type than its format specifies, and its place. The values around it are read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistyped {
    /// File.
    pub path: PathBuf,
    /// Offset of the line, or of the document, in the unpacked file.
    pub offset: u64,
    /// Path of the value: `message.content`, `steps[3].message`.
    pub field: String,
    /// Actual type.
    pub came: &'static str,
    /// Expected type.
    pub wanted: String,
}

/// Counts by name.
pub type CountsByName = BTreeMap<&'static str, u64>;

/// Account of a conversion. Each line of a transcript has one outcome: bad, a duplicate, left out by name, or
/// used.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Transcripts of an unsupported kind, or damaged as a whole, and why.
    pub refused: Vec<(PathBuf, String)>,
    /// Files of a folder that are not transcripts, and why.
    pub skipped: Vec<(PathBuf, String)>,
    /// Bytes read, unpacked.
    pub bytes: u64,
    /// Counts of lines and messages.
    pub counts: LineCounts,
    /// Bytes written.
    pub written: u64,
}

impl Report {
    /// Return the first rejected row, and its file.
    pub(super) fn damage(&self) -> Option<(&PathBuf, &Bad)> {
        self.counts.files.iter().find_map(|(path, _, account)| Some((path, account.places.first()?)))
    }

    /// Return the reasons why lines were left out, as the end of a sentence.
    pub(crate) fn dropped(&self) -> String {
        let reasons =
            self.counts.dropped.iter().map(|(why, count)| format!("{} {count}", why.replace('_', " ")));
        let reasons: Vec<_> = reasons.collect();
        if reasons.is_empty() { String::new() } else { format!("; dropped: {}", reasons.join(", ")) }
    }

    /// Return the file without any output, and the reason: with the first damage, if there is any.
    pub(super) fn nothing(&self, target: &Path) -> (PathBuf, String) {
        let bad = self.damage().map(|(path, Bad { reason, line, offset, .. })| {
            (path, format!("; line {line}, byte {offset}: {}", reason.name().replace('_', " ")))
        });
        let mistyped = || {
            let Mistyped { path, offset, field, came, wanted } = self.counts.mistyped.first()?;
            Some((path, format!("; byte {offset}: {field} is {came}, wanted {wanted}")))
        };
        let only = || match &self.counts.files[..] {
            [(path, ..)] => Some((path, self.dropped())),
            _ => None,
        };
        let unread = || {
            let (path, why) = self.refused.iter().chain(&self.skipped).next()?;
            Some((path, format!("; {why}")))
        };
        let usable = if bad.is_some() { " that can be used" } else { "" };
        let found = bad.or_else(mistyped).or_else(only).or_else(unread);
        let (path, why) =
            found.map_or_else(|| (target.to_path_buf(), self.dropped()), |(path, why)| (path.clone(), why));
        (path, format!("there is no conversation in what was read{usable}{why}"))
    }
}

/// Account of the lines of some trajectories.
#[derive(Clone, Debug, Default)]
pub struct LineCounts {
    /// Files read, with the kind of transcript and the counts; `read` counts lines.
    pub files: Vec<(PathBuf, &'static str, Account)>,
    /// Lines by type.
    pub types: BTreeMap<String, u64>,
    /// Trajectories, including those of sub-agents.
    pub trajectories: u64,
    /// Trajectories of sub-agents.
    pub sub_agents: u64,
    /// Trajectories with a reward.
    pub rewarded: u64,
    /// Records that were made of the trajectories, where another format than theirs is written.
    pub records: u64,
    /// Messages by role.
    pub messages: CountsByName,
    /// Tool calls by result: `succeeded`, `failed`, `unknown`, `unanswered`.
    pub calls: CountsByName,
    /// Lines that became messages or parts of them.
    pub used: u64,
    /// Duplicate lines of a transcript.
    pub duplicates: u64,
    /// Lines left out, by reason.
    pub dropped: CountsByName,
    /// Parts of used lines that were left out or repaired.
    pub notes: CountsByName,
    /// Unsupported message blocks and session items, by kind.
    pub blocks: BTreeMap<String, u64>,
    /// Secrets that were replaced, or that stay in the output, by family.
    pub secrets: CountsByName,
    /// First mistyped values, by file and place.
    pub mistyped: Vec<Mistyped>,
    /// Mistyped values without a place yet.
    met: Vec<Mistyped>,
    /// Tallies of work units that are part of a file.
    pub(super) tallies: Vec<(usize, FileTally)>,
}

/// Records made of one trajectory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordCounts {
    /// Records written.
    pub(crate) written: u64,
    /// Records with a reward.
    pub(crate) rewarded: u64,
    /// Prompts without a tool call, of which there is no record.
    pub(crate) without_calls: u64,
}

impl LineCounts {
    /// Add the account of other lines.
    pub(crate) fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        other.types.iter().for_each(|(name, &count)| count_type(&mut self.types, name, count));
        other.blocks.iter().for_each(|(kind, &count)| count_type(&mut self.blocks, kind, count));
        self.trajectories += other.trajectories;
        self.sub_agents += other.sub_agents;
        self.rewarded += other.rewarded;
        self.records += other.records;
        self.used += other.used;
        self.duplicates += other.duplicates;
        self.tallies.extend(other.tallies);
        self.add_mistyped(other.mistyped);
        let pairs = [
            (&mut self.messages, other.messages),
            (&mut self.calls, other.calls),
            (&mut self.dropped, other.dropped),
            (&mut self.notes, other.notes),
            (&mut self.secrets, other.secrets),
        ];
        for (mine, theirs) in pairs {
            for (name, count) in theirs {
                *mine.entry(name).or_default() += count;
            }
        }
    }

    /// Count a line that is left out.
    pub(crate) fn drop_line(&mut self, reason: &'static str) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// Count used lines as left out instead.
    pub(super) fn move_to_dropped(&mut self, lines: u64, reason: &'static str) {
        if lines > 0 {
            self.used = self.used.saturating_sub(lines);
            *self.dropped.entry(reason).or_default() += lines;
        }
    }

    /// Count the secrets that stay in the output: they are replaced when rows are drawn from it.
    pub(super) fn count_secrets(&mut self, lines: &[u8]) {
        if let Ok(text) = std::str::from_utf8(lines) {
            secrets::count(text, &mut self.secrets);
        }
    }

    /// Count something inside a line.
    pub(crate) fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    /// Count something inside a line several times.
    pub(super) fn notes_of(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.notes.entry(what).or_default() += count;
        }
    }

    /// Count a block that is left out without a replacement text.
    pub(super) fn leave_out(&mut self, what: &'static str, kind: &[u8]) {
        self.note(what);
        count_type(&mut self.blocks, &String::from_utf8_lossy(kind), 1);
    }

    /// Count a value of a wrong type; [`locate`](Self::locate) adds its place.
    pub(super) fn mistyped(&mut self, field: String, came: &'static str, wanted: String) {
        self.note("wrong_type");
        if self.met.len() < MISTYPED_TOLD {
            self.met.push(Mistyped { path: PathBuf::new(), offset: 0, field, came, wanted });
        }
    }

    /// Set the place of the values counted since the last call.
    pub(super) fn locate(&mut self, path: &str, offset: u64) {
        if !self.met.is_empty() {
            let met = std::mem::take(&mut self.met);
            self.add_mistyped(
                met.into_iter().map(|met| Mistyped { path: path.into(), offset, ..met }).collect(),
            );
        }
    }

    /// Keep the first by file and place, independent of threads.
    fn add_mistyped(&mut self, more: Vec<Mistyped>) {
        self.mistyped.extend(more);
        self.mistyped.sort();
        self.mistyped.truncate(MISTYPED_TOLD);
    }
}

/// Add to the count of a type with a name from a log.
pub(super) fn count_type(types: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    let known = types.contains_key(name);
    let fits = known || (types.len() < TYPES_TOLD && name.len() <= TYPE_LENGTH);
    *types.entry(if fits { name } else { OTHER }.to_owned()).or_default() += count;
}
