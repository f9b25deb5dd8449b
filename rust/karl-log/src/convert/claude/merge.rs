//! The lines of one session, from however many files: each once, in order, and which of them are still in its threads.

use std::collections::{HashMap, HashSet};

use super::row::{LineKind, Parent, Row};
use crate::convert::report::Made;

/// The rows of a session with each line once, those of the file that begins first in front. A session that is taken up
/// again, or copied while it grew, stands in several files, whose beginnings are the same. A message of a sub-agent that
/// its session tells gives way to the sub-agent's own line.
pub(super) fn merge(rows: &[Row], made: &mut Made) -> Vec<Row> {
    let mut begun: HashMap<usize, (i64, usize)> = HashMap::new();
    for row in rows {
        let (first, count) = begun.entry(row.spot.input()).or_insert((i64::MAX, 0));
        *first = if row.time > 0 { row.time.min(*first) } else { *first };
        *count += 1;
    }
    let mut ordered: Vec<Row> = rows.to_vec();
    // Rows of one file stay in its order.
    ordered.sort_by_key(|row| (begun.get(&row.spot.input()).copied(), row.spot.input()));
    let told = rows.iter().any(|row| row.relayed);
    let own: HashSet<u64> = rows.iter().filter(|row| told && !row.relayed).map(|row| row.id).collect();
    let mut seen = HashSet::with_capacity(rows.len());
    ordered.retain(|row| !(row.relayed && own.contains(&row.id)) && seen.insert(row.id));
    made.duplicates += (counted(rows) - counted(&ordered)) as u64;
    ordered
}

/// How many lines rows stand for: a line that tells a message is that message's row.
pub(super) fn counted(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.kind != LineKind::Carrier).count()
}

/// The lines of the session's own thread and of each of its sub-agents, in the order in which they begin.
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
    /// Of a sub-agent without a name: the line that it begins with.
    From(u64),
}

/// The line that the sub-agent of a line begins with.
fn root(row: &Row, rows: &[Row], places: &HashMap<u64, usize>) -> u64 {
    let mut row = row;
    // As many steps as there are lines: parents may go round.
    for _ in 0..rows.len() {
        let Parent::Line(parent) = row.parent else { break };
        match places.get(&parent).map(|&at| &rows[at]).filter(|parent| parent.side) {
            Some(parent) => row = parent,
            None => break,
        }
    }
    row.id
}

/// Which lines of a thread are on the branch that its last message ends: what was taken back is not.
///
/// From the last message on, each line's parent is on it. Where the log names a parent that it does not have, or names
/// none, the order of the lines tells it. Calls made side by side are a message in several lines, of which only one is
/// the parent of what follows: the lines of a message on the branch are on it.
pub(super) fn live(rows: &[Row]) -> Vec<bool> {
    let places: HashMap<u64, usize> = rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    let speaks = |row: &Row| matches!(row.kind, LineKind::User | LineKind::Assistant);
    let before = |at: usize| rows[..at].iter().rposition(speaks);
    let mut live = vec![false; rows.len()];
    let mut next = before(rows.len());
    while let Some(at) = next.filter(|&at| !live[at]) {
        live[at] = true;
        next = match rows[at].parent {
            Parent::Line(parent) => places.get(&parent).copied().or_else(|| before(at)),
            Parent::Unknown => before(at),
            Parent::Root => None,
        };
    }
    let messages: HashSet<u64> = rows
        .iter()
        .zip(&live)
        .filter(|(row, live)| **live && row.message != 0)
        .map(|(row, _)| row.message)
        .collect();
    for (row, live) in rows.iter().zip(&mut live) {
        *live |= messages.contains(&row.message);
    }
    live
}
