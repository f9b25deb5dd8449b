//! What a conversion read, made and left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::log::Account;
use crate::rejects::{Bad, Tally};
use crate::secrets;

/// How many types of lines are told by name: a log may have any number.
const TYPES_TOLD: usize = 64;

/// The longest name of a type that is told, in bytes.
const TYPE_LENGTH: usize = 64;

/// What stands for the names of types beyond those that are told.
const OTHER: &str = "(other)";

/// Why lines are left out that are neither a message nor a part of one.
pub(super) const NO_CONVERSATION: &str = "no_conversation";

/// Why nothing is used of what says nothing.
pub(super) const EMPTY: &str = "empty";

/// Why nothing of a line is used that holds blocks alone which are no text; how such a block is counted.
pub(super) const NO_TEXT: &str = "no_text";

/// How a block of an unknown kind is counted.
pub(super) const UNKNOWN_BLOCK: &str = "unknown_block";

/// Why nothing of a line is used whose message is damaged.
pub(super) const DAMAGED: &str = "damaged";

/// How many values of wrong types are told with their places; all are counted.
const MISTYPED_TOLD: usize = 100;

/// A value that is of another type than its format has there, and its place. What stands around it is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistyped {
    /// The file.
    pub path: PathBuf,
    /// The first byte of the line, or of the document, in the unpacked file.
    pub offset: u64,
    /// Where in it the value stands: `message.content`, `steps[3].message`.
    pub field: String,
    /// What came.
    pub came: &'static str,
    /// What the format has there.
    pub wanted: String,
}

/// Counts by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// The account of a conversion. Of the lines of a transcript each has one fate: bad, a duplicate, left out by name, or
/// used.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Files that are transcripts of a kind that is not read, or damaged as a whole, and why.
    pub refused: Vec<(PathBuf, String)>,
    /// Files of a folder that are no transcripts, and why.
    pub skipped: Vec<(PathBuf, String)>,
    /// Bytes read, unpacked.
    pub bytes: u64,
    /// What became of lines and messages.
    pub made: Made,
    /// Bytes written.
    pub written: u64,
}

impl Report {
    /// The first row that is no record, and its file.
    pub(super) fn damage(&self) -> Option<(&PathBuf, &Bad)> {
        self.made.files.iter().find_map(|(path, _, account)| Some((path, account.places.first()?)))
    }

    /// Why lines were left out, as the end of a sentence.
    fn dropped(&self) -> String {
        let counts =
            self.made.dropped.iter().map(|(why, count)| format!("{} {count}", why.replace('_', " ")));
        let counts: Vec<_> = counts.collect();
        if counts.is_empty() { String::new() } else { format!("; dropped: {}", counts.join(", ")) }
    }

    /// Which file it is that gave nothing to write, and why: with the first damage, if there is any.
    pub(super) fn nothing(&self, target: &Path) -> (PathBuf, String) {
        let bad = self.damage().map(|(path, Bad { reason, line, offset, .. })| {
            (path, format!("; line {line}, byte {offset}: {}", reason.name().replace('_', " ")))
        });
        let mistyped = || {
            let Mistyped { path, offset, field, came, wanted } = self.made.mistyped.first()?;
            Some((path, format!("; byte {offset}: {field} is {came}, wanted {wanted}")))
        };
        let only = || match &self.made.files[..] {
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

/// What became of the lines of some trajectories.
#[derive(Clone, Debug, Default)]
pub struct Made {
    /// Each file that was read, with the kind of its transcript and what was found in it: `read` counts its lines.
    pub files: Vec<(PathBuf, &'static str, Account)>,
    /// Lines by their type.
    pub types: BTreeMap<String, u64>,
    /// Trajectories, those of sub-agents among them.
    pub trajectories: u64,
    /// Trajectories of sub-agents.
    pub sub_agents: u64,
    /// Trajectories that have a reward.
    pub rewarded: u64,
    /// Messages by role.
    pub messages: Counts,
    /// Calls of tools by what their results say: `succeeded`, `failed`, `unknown`, `unanswered`.
    pub calls: Counts,
    /// Lines that became messages or parts of them.
    pub used: u64,
    /// Lines that a transcript holds twice.
    pub duplicates: u64,
    /// Lines that were left out, by reason.
    pub dropped: Counts,
    /// What was left out or mended inside lines that were used.
    pub notes: Counts,
    /// Blocks of messages, and items of sessions, that are not read, by their kind.
    pub blocks: BTreeMap<String, u64>,
    /// Secrets that stand in what was written, by family.
    pub secrets: Counts,
    /// The first values of wrong types, by file and place.
    pub mistyped: Vec<Mistyped>,
    /// Those whose place is to be told yet.
    met: Vec<Mistyped>,
    /// What was found in each unit of work that is a part of a file.
    pub(super) tallies: Vec<(usize, Tally)>,
}

impl Made {
    /// Adds what became of other lines.
    pub(super) fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        other.types.iter().for_each(|(name, &count)| count_type(&mut self.types, name, count));
        other.blocks.iter().for_each(|(kind, &count)| count_type(&mut self.blocks, kind, count));
        self.trajectories += other.trajectories;
        self.sub_agents += other.sub_agents;
        self.rewarded += other.rewarded;
        self.used += other.used;
        self.duplicates += other.duplicates;
        self.tallies.extend(other.tallies);
        self.tell(other.mistyped);
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

    /// Counts a line that is left out.
    pub(super) fn drop_line(&mut self, reason: &'static str) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// Counts the secrets in lines that are written: they are replaced when rows are drawn from them.
    pub(super) fn count_secrets(&mut self, lines: &[u8]) {
        if let Ok(text) = std::str::from_utf8(lines) {
            secrets::count(text, &mut self.secrets);
        }
    }

    /// Counts something inside a line.
    pub(super) fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    /// Counts something inside a line as often as it was there.
    pub(super) fn notes_of(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.notes.entry(what).or_default() += count;
        }
    }

    /// Counts a block that is left out: no text stands in its place.
    pub(super) fn leave_out(&mut self, what: &'static str, kind: &[u8]) {
        self.note(what);
        count_type(&mut self.blocks, &String::from_utf8_lossy(kind), 1);
    }

    /// Counts a value of a wrong type; where it lies is told by [`locate`](Self::locate).
    pub(super) fn mistyped(&mut self, field: String, came: &'static str, wanted: String) {
        self.note("wrong_type");
        if self.met.len() < MISTYPED_TOLD {
            self.met.push(Mistyped { path: PathBuf::new(), offset: 0, field, came, wanted });
        }
    }

    /// Says where the values lie that were met since the last time.
    pub(super) fn locate(&mut self, path: &str, offset: u64) {
        if !self.met.is_empty() {
            let met = std::mem::take(&mut self.met);
            self.tell(met.into_iter().map(|met| Mistyped { path: path.into(), offset, ..met }).collect());
        }
    }

    /// Keeps the first by file and place, whichever thread was faster.
    fn tell(&mut self, more: Vec<Mistyped>) {
        self.mistyped.extend(more);
        self.mistyped.sort();
        self.mistyped.truncate(MISTYPED_TOLD);
    }
}

/// Adds to the count of a type whose name came from a log.
pub(super) fn count_type(types: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    let known = types.contains_key(name);
    let fits = known || (types.len() < TYPES_TOLD && name.len() <= TYPE_LENGTH);
    *types.entry(if fits { name } else { OTHER }.to_owned()).or_default() += count;
}
