//! What a conversion read, made and left out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::log::Account;

/// How many types of lines are told by name: a log may have any number.
const TYPES_TOLD: usize = 64;

/// The longest name of a type that is told, in bytes.
const TYPE_LENGTH: usize = 64;

/// What stands for the names of types beyond those that are told.
const OTHER: &str = "(other)";

/// Why lines are left out that are neither a message nor a part of one.
pub(super) const NO_CONVERSATION: &str = "no_conversation";

/// Why nothing of a line is used whose message is damaged.
pub(super) const DAMAGED: &str = "damaged";

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
}

impl Made {
    /// Adds what became of other lines.
    pub(super) fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        other.types.iter().for_each(|(name, &count)| count_type(&mut self.types, name, count));
        self.trajectories += other.trajectories;
        self.sub_agents += other.sub_agents;
        self.used += other.used;
        self.duplicates += other.duplicates;
        let pairs = [
            (&mut self.messages, other.messages),
            (&mut self.calls, other.calls),
            (&mut self.dropped, other.dropped),
            (&mut self.notes, other.notes),
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

    /// Counts something inside a line.
    pub(super) fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }
}

/// Adds to the count of a type whose name came from a log.
pub(super) fn count_type(types: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    let known = types.contains_key(name);
    let fits = known || (types.len() < TYPES_TOLD && name.len() <= TYPE_LENGTH);
    *types.entry(if fits { name } else { OTHER }.to_owned()).or_default() += count;
}
