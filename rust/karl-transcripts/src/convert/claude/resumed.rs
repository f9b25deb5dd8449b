//! Sessions that repeat another: a session resumed under a new name begins with lines of the old one, and a forked
//! one with copies that name them.

use std::collections::{HashMap, HashSet};

use super::index::Origins;
use super::row::{LineKind, Row};

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
    let speaks =
        |row: &&Row| matches!(row.kind, LineKind::User | LineKind::Assistant) && row.left_out.is_none();
    rows.iter().filter(speaks).map(|row| first(row.id, origins))
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
