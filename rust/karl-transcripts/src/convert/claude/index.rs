//! First pass: a row for each line of every transcript, by all threads; the sessions that these lines make, each line
//! once, in order, with those still in its threads; and the sessions that repeat another. A session that was resumed
//! under a new name begins with lines of the old one, and a forked one with copies that name them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use karl_log::cancel::Watch;
use karl_log::columns::PackedPlace;
use karl_log::error::Result;
use karl_log::framing::StreamError;
use karl_log::framing::lines::{RANGE, RangeTask, open_range, split_into_ranges};
use karl_log::input::source::Source;
use karl_log::json::project::ScanFault;
use karl_log::log::Account;
use karl_log::parallel::map;
use karl_log::rejects::FileTally;

use super::row::{ClaudeRowReader, LineKind, ParentLine, ReadLine, Row, hash};
use crate::convert::json::each;
use crate::convert::report::{LineCounts, NO_CONVERSATION, Report, count_type};
use crate::convert::run::ConvertSettings;

/// Findings in a range of a file.
struct IndexPart {
    input: usize,
    rows: Vec<Row>,
    origins: Vec<(u64, u64)>,
    types: BTreeMap<String, u64>,
    loose: u64,
    tally: FileTally,
}

/// Lines of forked sessions, with the lines that they are copies of.
pub(super) type Origins = HashMap<u64, u64>;

/// Return the rows of all files, in the order of files and lines, and the copied ones among them; count lines
/// that are not rows.
///
/// # Errors
/// [`Error::Io`](karl_log::Error::Io), [`Error::Interrupted`](karl_log::Error::Interrupted).
pub(super) fn index(
    sources: &[Source],
    accounts: &mut [Account],
    report: &mut Report,
    settings: &ConvertSettings,
    watch: &Watch,
) -> Result<(Vec<Row>, Origins)> {
    let (threads, limit) = (settings.threads, settings.max_line_bytes);
    let read = |task: RangeTask| IndexPart::read(&sources[task.input], task, limit, watch);
    let tasks =
        sources.iter().enumerate().flat_map(|(at, source)| split_into_ranges(at, source, RANGE)).collect();
    let mut parts = map(tasks, threads, read).into_iter().collect::<Result<Vec<_>>>()?;
    let beyond: BTreeSet<usize> =
        parts.iter().filter(|part| part.tally.beyond).map(|part| part.input).collect();
    parts.retain(|part| !beyond.contains(&part.input));
    for part in map(beyond.into_iter().map(RangeTask::whole).collect(), threads, read) {
        parts.push(part?);
    }
    parts.sort_by_key(|part| part.input);
    let (mut rows, mut origins) = (Vec::new(), Origins::new());
    let mut lines = vec![0; sources.len()];
    for part in parts {
        let IndexPart { input, tally, .. } = &part;
        accounts[*input].add(tally, lines[*input]);
        lines[*input] += tally.lines;
        part.types.iter().for_each(|(name, &count)| count_type(&mut report.counts.types, name, count));
        if part.loose > 0 {
            *report.counts.dropped.entry(NO_CONVERSATION).or_default() += part.loose;
        }
        rows.extend(part.rows);
        origins.extend(part.origins);
    }
    join_floating(sources, &mut rows);
    Ok((rows, origins))
}

/// Set the session of lines of the queue that name none to that of the line before them in their file.
fn join_floating(sources: &[Source], rows: &mut [Row]) {
    let unnamed: Vec<u64> = sources.iter().map(|source| hash(source.name.as_bytes())).collect();
    let mut before: Option<Row> = None;
    for row in rows {
        let input = row.spot.input();
        if row.kind != LineKind::Floating || row.session != unnamed[input] {
            before = Some(*row);
        } else if let Some(before) = before.filter(|before| before.spot.input() == input) {
            row.session = before.session;
        }
    }
}

impl IndexPart {
    fn read(source: &Source, task: RangeTask, limit: usize, watch: &Watch) -> Result<Self> {
        let mut part = Self {
            input: task.input,
            rows: Vec::new(),
            origins: Vec::new(),
            types: BTreeMap::new(),
            loose: 0,
            tally: FileTally::default(),
        };
        let mut reader = ClaudeRowReader::new();
        // A line without a session id belongs to the session of its file.
        let session = hash(source.name.as_bytes());
        let mut tally = FileTally::default();
        let read = open_range(source, task, limit, watch).and_then(|pieces| {
            each(
                pieces,
                &mut tally,
                |bytes| watch.advance(bytes),
                |bytes, offset| {
                    let spot = PackedPlace::new(task.input, offset).ok_or(ScanFault::Malformed(0))?;
                    let line = reader.read(bytes, spot, session)?;
                    part.add(&line);
                    Ok(line.end)
                },
            )
        });
        part.tally = tally;
        match read {
            Err(StreamError::Beyond) => part.tally.beyond = true,
            read => read.map_err(|fail| fail.of(source))?,
        }
        Ok(part)
    }

    fn add(&mut self, found: &ReadLine<'_>) {
        let kind = found.kind;
        match std::str::from_utf8(kind).ok().and_then(|kind| self.types.get_mut(kind)) {
            Some(count) => *count += 1,
            None => count_type(&mut self.types, &String::from_utf8_lossy(kind), 1),
        }
        if found.row.kind == LineKind::Loose {
            self.loose += 1;
        } else {
            self.rows.push(found.row);
            self.rows.extend(found.relayed);
            self.origins.extend(found.forked_from.map(|from| (found.row.id, from)));
        }
    }
}

/// Split rows into sessions, ordered by their start and then by the hash of their name; count duplicate rows.
pub(super) fn sessions(mut rows: Vec<Row>, counts: &mut LineCounts) -> Vec<Vec<Row>> {
    rows.sort_unstable_by_key(|row| (row.session, row.spot));
    let mut sessions: Vec<Vec<Row>> =
        rows.chunk_by(|a, b| a.session == b.session).map(|rows| merge(rows, counts)).collect();
    sessions.sort_by_cached_key(|rows| {
        let begun = rows.iter().map(|row| row.time).filter(|&time| time > 0).min();
        (begun.unwrap_or_default(), rows.first().map(|row| row.session))
    });
    sessions
}

/// Return the rows of a session with each line once, those of the file that begins first at the front. A
/// session that was resumed, or copied while it grew, is in several files with equal beginnings. A relayed
/// message of a sub-agent gives way to the sub-agent's own line. A sub-agent that began with its session's messages
/// keeps its copies of them.
pub(super) fn merge(rows: &[Row], counts: &mut LineCounts) -> Vec<Row> {
    let mut begun: HashMap<usize, (i64, usize)> = HashMap::new();
    for row in rows {
        let (first, count) = begun.entry(row.spot.input()).or_insert((i64::MAX, 0));
        *first = if row.time > 0 { row.time.min(*first) } else { *first };
        *count += 1;
    }
    let mut ordered: Vec<Row> = rows.to_vec();
    // Rows of one file stay in its order.
    ordered.sort_by_key(|row| (begun.get(&row.spot.input()).copied(), row.spot.input()));
    relink_after_replays(&mut ordered);
    let told = rows.iter().any(|row| row.relayed);
    let own: HashSet<u64> = rows.iter().filter(|row| told && !row.relayed).map(|row| row.id).collect();
    let (mut seen, mut equal) = (HashSet::with_capacity(rows.len()), HashMap::new());
    ordered.retain(|row| {
        // Lines of the queue have no id: two of one file may be equal.
        let nth = if row.kind == LineKind::Floating {
            let count = equal.entry((row.spot.input(), row.id)).or_insert(0_u64);
            *count += 1;
            *count
        } else {
            0
        };
        let agent = if row.side { row.agent } else { 0 };
        !(row.relayed && own.contains(&row.id)) && seen.insert((row.id, agent, nth))
    });
    counts.duplicates += (counted(rows) - counted(&ordered)) as u64;
    ordered
}

/// Let the order of the lines tell what came before a line that is linked to the last of some replayed lines.
///
/// After the second compaction of a process, Claude Code appends the messages before the first one again, under the
/// same ids, and links the next line to the last of them: what lies between would be lost.
/// Reference: anthropics/claude-code, issue 92089.
fn relink_after_replays(rows: &mut [Row]) {
    for rows in rows.chunk_by_mut(|a, b| a.spot.input() == b.spot.input()) {
        let (mut places, mut compacted, mut replayed) = (HashMap::new(), None, None);
        for (at, row) in rows.iter_mut().enumerate().filter(|(_, row)| !row.side) {
            match row.kind {
                LineKind::Floating | LineKind::Loose => continue,
                LineKind::Boundary => compacted = Some(at),
                _ => {}
            }
            let first = *places.entry(row.id).or_insert(at);
            if first < at {
                replayed = Some(row.id).filter(|_| Some(first) < compacted);
            } else if let Some(id) = replayed.take()
                && row.parent == ParentLine::Line(id)
            {
                row.parent = ParentLine::Unknown;
            }
        }
    }
}

/// Return the number of lines of some rows: a line that relays a message counts as that message's row.
pub(super) fn counted(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.kind != LineKind::Carrier).count()
}

/// Return the lines of the session's own thread and of each of its sub-agents, in the order of their start.
pub(super) fn threads(rows: &[Row]) -> Vec<Vec<Row>> {
    let places: HashMap<u64, usize> = rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    let mut order: HashMap<Thread, usize> = HashMap::from([(Thread::Own, 0)]);
    let mut threads: Vec<Vec<Row>> = vec![Vec::new()];
    for row in rows {
        let thread = match (row.side, row.agent) {
            (false, _) => Thread::Own,
            (true, 0) => Thread::From(root(row, rows, &places)),
            (true, agent) => Thread::Agent(agent),
        };
        let at = *order.entry(thread).or_insert(threads.len());
        if at == threads.len() {
            threads.push(Vec::new());
        }
        threads[at].push(*row);
    }
    threads
}

#[derive(PartialEq, Eq, Hash)]
enum Thread {
    Own,
    Agent(u64),
    /// Thread of a sub-agent without a name: its first line.
    From(u64),
}

/// Return the first line of the sub-agent of a line.
fn root(row: &Row, rows: &[Row], places: &HashMap<u64, usize>) -> u64 {
    let mut row = row;
    // At most as many steps as lines: parents may form a cycle.
    for _ in 0..rows.len() {
        let ParentLine::Line(parent) = row.parent else { break };
        match places.get(&parent).map(|&at| &rows[at]).filter(|parent| parent.side) {
            Some(parent) => row = parent,
            None => break,
        }
    }
    row.id
}

/// Return which lines of a thread are on the branch of its last message; reverted ones are not.
pub(super) fn live(rows: &[Row]) -> Vec<bool> {
    branch(rows, rows.iter().rposition(is_turn))
}

/// Return the branches of a thread that were left: for each, which lines are on it. A line beside the branch that
/// was kept is none if the model says nothing there: the results of parallel calls are such lines. Nor is one that
/// begins with the model: a request was made again after a failure, and no user left it.
pub(super) fn abandoned(rows: &[Row], live: &[bool]) -> Vec<Vec<bool>> {
    let answers = |at: &usize| rows[*at].kind == LineKind::Assistant && rows[*at].left_out.is_none();
    let (mut seen, mut found) = (live.to_vec(), Vec::new());
    for last in (0..rows.len()).rev() {
        if seen[last] || !is_turn(&rows[last]) {
            continue;
        }
        let on = branch(rows, Some(last));
        let mut new = (0..rows.len()).filter(|&at| on[at] && !seen[at] && is_turn(&rows[at]));
        let is_of_user = new.clone().next().is_some_and(|at| rows[at].kind != LineKind::Assistant);
        if is_of_user && new.any(|at| answers(&at)) {
            found.push(on.clone());
        }
        seen.iter_mut().zip(on).for_each(|(seen, on)| *seen |= on);
    }
    found.reverse();
    found
}

fn is_turn(row: &Row) -> bool {
    matches!(row.kind, LineKind::User | LineKind::Assistant | LineKind::Queued)
}

/// Return which lines of a thread are on the branch that ends with a line.
///
/// From the last message on, each line's parent is on the branch. If the parent is missing or not named, or on the
/// branch already, the order of the lines decides. Parallel calls are one message in several lines, only one of
/// which is the parent of the next line: all lines of a message on the branch are on it. A line that no parent links
/// is where the line before it is.
fn branch(rows: &[Row], last: Option<usize>) -> Vec<bool> {
    let mut parents = Parents::new(rows);
    let mut live = vec![false; rows.len()];
    let mut next = last;
    while let Some(at) = next {
        live[at] = true;
        next = match parents.of(at) {
            PlacedParent::At(parent) if !live[parent] => Some(parent),
            PlacedParent::At(_) | PlacedParent::Unknown => parents.said_before(at, &live),
            PlacedParent::Root => None,
        };
    }
    let messages: HashSet<u64> = rows
        .iter()
        .zip(&live)
        .filter(|(row, live)| **live && row.message != 0)
        .map(|(row, _)| row.message)
        .collect();
    let mut before = last.is_some();
    for (row, live) in rows.iter().zip(&mut live) {
        *live |= messages.contains(&row.message) || (row.kind == LineKind::Floating && before);
        before = if is_turn(row) { *live } else { before };
    }
    live
}

/// Parents of the lines of a thread.
struct Parents<'r> {
    rows: &'r [Row],
    places: HashMap<u64, usize>,
    /// Number of compactions before each line.
    compactions: Vec<usize>,
    /// Message before each line that is not known to be on the branch.
    said: Vec<Option<usize>>,
}

/// Parent of a line by its place.
enum PlacedParent {
    At(usize),
    Unknown,
    Root,
}

impl<'r> Parents<'r> {
    fn new(rows: &'r [Row]) -> Self {
        let (mut compactions, mut said, mut count, mut last) = (Vec::new(), Vec::new(), 0, None);
        for (at, row) in rows.iter().enumerate() {
            compactions.push(count);
            said.push(last);
            count += usize::from(row.kind == LineKind::Boundary);
            last = if is_turn(row) { Some(at) } else { last };
        }
        let places = rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
        Self { rows, places, compactions, said }
    }

    /// Return the parent of a line.
    ///
    /// The parent of a compaction may be a line that was kept, and written again behind it; that of a hook's line a
    /// message before an earlier compaction; and that of a message one before the last two. None of these is what came
    /// before: a user goes back to what the last compaction kept.
    fn of(&self, at: usize) -> PlacedParent {
        let parent = match self.rows[at].parent {
            ParentLine::Root => return PlacedParent::Root,
            ParentLine::Line(parent) => self.places.get(&parent).copied(),
            ParentLine::Unknown => None,
        };
        let is_link = matches!(
            self.rows[at].kind,
            LineKind::Link | LineKind::Attached | LineKind::Carrier | LineKind::Boundary
        );
        let misses = |parent: usize| {
            if parent < at {
                self.compactions[at] - self.compactions[parent + 1] > usize::from(!is_link)
            } else {
                self.rows[at].kind == LineKind::Boundary
            }
        };
        parent.filter(|&parent| !misses(parent)).map_or(PlacedParent::Unknown, PlacedParent::At)
    }

    /// Return the last message before a line that is not on the branch yet.
    fn said_before(&mut self, at: usize, live: &[bool]) -> Option<usize> {
        let (mut from, mut passed) = (at, Vec::new());
        while let Some(said) = self.said[from].filter(|&said| live[said]) {
            passed.push(from);
            from = said;
        }
        let found = self.said[from];
        for at in passed {
            self.said[at] = found;
        }
        found
    }
}

/// Maximum number of forks of forks that are followed.
const COPIES_OF_COPIES: usize = 64;

/// Relation of a session to those that share lines with it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Kin {
    /// True if another session holds all of its messages.
    pub(super) contained: bool,
    /// First session of those that share lines and differ; None for a session that shares none.
    pub(super) root: Option<usize>,
}

/// Return the relation of each session, by the ids of their messages; sessions are in the order of their
/// start.
pub(super) fn kin(sessions: &[Vec<Row>], origins: &Origins) -> Vec<Kin> {
    let mut kin = vec![Kin::default(); sessions.len()];
    for family in families(sessions, origins).into_iter().filter(|family| family.len() > 1) {
        let said = family.iter().map(|&at| messages(&sessions[at], origins).collect());
        let said: Vec<HashSet<u64>> = said.collect();
        let holds = |one: usize, other: usize| {
            one != other
                && said[other].is_subset(&said[one])
                && (said[one].len() > said[other].len() || one < other)
        };
        let contained = |at: &usize| (0..family.len()).any(|other| holds(other, *at));
        let left = (0..family.len()).filter(|at| !contained(at)).count();
        for (at, &session) in family.iter().enumerate() {
            let contained = contained(&at);
            kin[session] = Kin { contained, root: (left > 1 && !contained).then_some(family[0]) };
        }
    }
    kin
}

/// Return the ids of a session's messages; of a copy, that of the first line of which it is a copy of a copy.
fn messages(rows: &[Row], origins: &Origins) -> impl Iterator<Item = u64> {
    let is_message =
        |row: &&Row| matches!(row.kind, LineKind::User | LineKind::Assistant) && row.left_out.is_none();
    rows.iter().filter(is_message).map(|row| first(row.id, origins))
}

fn first(mut id: u64, origins: &Origins) -> u64 {
    // A log may name copies in a cycle.
    for _ in 0..COPIES_OF_COPIES {
        match origins.get(&id) {
            Some(&from) => id = from,
            None => break,
        }
    }
    id
}

/// Return the sets of sessions that share messages, directly or through others.
fn families(sessions: &[Vec<Row>], origins: &Origins) -> Vec<Vec<usize>> {
    let mut holder: HashMap<u64, usize> = HashMap::new();
    let mut root: Vec<usize> = (0..sessions.len()).collect();
    for (at, rows) in sessions.iter().enumerate() {
        for id in messages(rows, origins) {
            let [one, other] = [at, *holder.entry(id).or_insert(at)].map(|session| top(&root, session));
            root[one.max(other)] = one.min(other);
        }
    }
    let mut families: Vec<Vec<usize>> = vec![Vec::new(); sessions.len()];
    for at in 0..sessions.len() {
        families[top(&root, at)].push(at);
    }
    families
}

fn top(root: &[usize], mut at: usize) -> usize {
    while root[at] != at {
        at = root[at];
    }
    at
}
