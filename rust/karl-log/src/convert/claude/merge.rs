//! Merge of the lines of one session from any number of files: each once, in order, with those still in its
//! threads.

use std::collections::{HashMap, HashSet};

use super::row::{LineKind, ParentLine, Row};
use crate::convert::report::Made;

/// Return the rows of a session with each line once, those of the file that begins first at the front. A
/// session that was resumed, or copied while it grew, is in several files with equal beginnings. A relayed
/// message of a sub-agent gives way to the sub-agent's own line.
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
    branch(rows, rows.iter().rposition(speaks))
}

/// Return the branches of a thread that were left: for each, which lines are on it. A line beside the branch that
/// was kept is none if the model says nothing there: the results of parallel calls are such lines.
pub(super) fn abandoned(rows: &[Row], live: &[bool]) -> Vec<Vec<bool>> {
    let answers = |at: &usize| rows[*at].kind == LineKind::Assistant && rows[*at].left_out.is_none();
    let (mut seen, mut found) = (live.to_vec(), Vec::new());
    for last in (0..rows.len()).rev() {
        if seen[last] || !speaks(&rows[last]) {
            continue;
        }
        let on = branch(rows, Some(last));
        let new = |at: &usize| on[*at] && !seen[*at];
        if (0..rows.len()).filter(new).any(|at| answers(&at)) {
            found.push(on.clone());
        }
        seen.iter_mut().zip(on).for_each(|(seen, on)| *seen |= on);
    }
    found.reverse();
    found
}

fn speaks(row: &Row) -> bool {
    matches!(row.kind, LineKind::User | LineKind::Assistant)
}

/// Return which lines of a thread are on the branch that ends with a line.
///
/// From the last message on, each line's parent is on the branch. If the parent is missing or not named, the
/// order of the lines decides. Parallel calls are one message in several lines, only one of which is the
/// parent of the next line: all lines of a message on the branch are on it.
fn branch(rows: &[Row], last: Option<usize>) -> Vec<bool> {
    let places: HashMap<u64, usize> = rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    let before = |at: usize| rows[..at].iter().rposition(speaks);
    let mut live = vec![false; rows.len()];
    let mut next = last;
    while let Some(at) = next.filter(|&at| !live[at]) {
        live[at] = true;
        next = match rows[at].parent {
            ParentLine::Line(parent) => places.get(&parent).copied().or_else(|| before(at)),
            ParentLine::Unknown => before(at),
            ParentLine::Root => None,
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
