//! Detection of files of one session: copies, earlier snapshots, continuations and forks.
//!
//! A resumed session may be written into a new file that repeats the old one, under the old name or a new
//! one; folders are copied, and snapshots of a session are kept beside it. Each session is one trajectory.
//! Sessions with a common beginning that then differ stay separate, in one group, so that no split separates
//! them.

use std::collections::{HashMap, HashSet};

use karl_core::rng::id128;
use serde_json::Value;

use super::atif::SubAgentReference;
use super::entire_metadata::EntireMetadata;
use super::message::Message;
use super::report::LineCounts;

/// Facts about a file's session, before it is written.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Id of the session; None if the file has none.
    pub(super) id: Option<String>,
    /// Name of its trajectory where another session may have the same one.
    pub(super) name: Option<String>,
    /// Names of its further trajectories, of a file with several sessions.
    pub(super) more_names: Vec<String>,
    /// Its sub-agents in other files.
    pub(super) sub_agents: Vec<SubAgentReference>,
    /// Session that this one was forked from.
    pub(super) forked_from: Option<String>,
    /// True if a continuation of the session may be in another file.
    pub(super) continues: bool,
    /// True if the user took it back: another file of the session is what stays.
    pub(super) superseded: bool,
    /// Hashes that two files of one session share.
    pub(super) links: Vec<u64>,
    /// Hash of each message or item of the conversation.
    pub(super) items: Vec<u64>,
    /// Hash of the whole content.
    pub(super) whole: u64,
    /// Times of the first and the last item, in milliseconds since 1970; 0 if absent.
    pub(super) begun: i64,
    pub(super) ended: i64,
}

/// Files that make one trajectory, or nothing.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Lineage {
    /// Files in order, each with the number of items repeated from the previous file.
    pub(super) parts: Vec<(usize, usize)>,
    /// True if another file holds all of it.
    pub(super) contained: bool,
    /// Group of sessions with a common beginning.
    pub(super) group: Option<String>,
    /// Session that they began as.
    pub(super) root: Option<String>,
    /// Mark that distinguishes it from another trajectory of the same id.
    pub(super) mark: Option<u64>,
    /// All files of the session.
    pub(super) files: Vec<usize>,
}

/// Return a hash of bytes of one sort.
pub(super) fn hash(sort: &str, bytes: &[u8]) -> u64 {
    (id128(&[sort.as_bytes(), b":", bytes].concat()) >> 64) as u64
}

/// Return the units of some files, in the order of their first files.
pub(super) fn units(
    traces: &[Trace],
    besides: &[Option<EntireMetadata>],
    counts: &mut LineCounts,
) -> Vec<Lineage> {
    let sums: Vec<Vec<u64>> = traces.iter().map(|trace| sums(&trace.items)).collect();
    let mut units: Vec<Lineage> = families(traces)
        .into_iter()
        .flat_map(|files| SessionFamily { traces, sums: &sums, files }.units(besides, counts))
        .collect();
    units.sort_by_key(|unit| unit.parts.first().copied());
    mark_namesakes(&mut units, traces);
    units
}

/// Mark trajectories of different sessions that have the name of an earlier one; those of one file together.
fn mark_namesakes(units: &mut [Lineage], traces: &[Trace]) {
    let mut seen = HashSet::new();
    for unit in units.iter_mut().filter(|unit| !unit.contained && unit.mark.is_none()) {
        let trace = &traces[unit.parts[0].0];
        let names: HashSet<&String> = trace.name.iter().chain(&trace.more_names).collect();
        if !seen.is_disjoint(&names) {
            unit.mark = Some(trace.whole);
        }
        seen.extend(names);
    }
}

/// Return a hash of each prefix of a list.
fn sums(items: &[u64]) -> Vec<u64> {
    let add = |sum: &mut u64, item: &u64| {
        *sum = hash("sum", &[sum.to_le_bytes(), item.to_le_bytes()].concat());
        Some(*sum)
    };
    items.iter().scan(0, add).collect()
}

/// Return the sets of files that share links, directly or through others.
fn families(traces: &[Trace]) -> Vec<Vec<usize>> {
    let mut root: Vec<usize> = (0..traces.len()).collect();
    let mut holder: HashMap<u64, usize> = HashMap::new();
    for (at, trace) in traces.iter().enumerate() {
        for &link in &trace.links {
            let [one, other] = [at, *holder.entry(link).or_insert(at)].map(|file| top(&mut root, file));
            root[one.max(other)] = one.min(other);
        }
    }
    let mut families: HashMap<usize, Vec<usize>> = HashMap::new();
    for at in 0..traces.len() {
        families.entry(top(&mut root, at)).or_default().push(at);
    }
    families.into_values().collect()
}

fn top(root: &mut [usize], mut at: usize) -> usize {
    while root[at] != at {
        root[at] = root[root[at]];
        at = root[at];
    }
    at
}

/// Files of one session, and of its forks.
struct SessionFamily<'a> {
    traces: &'a [Trace],
    sums: &'a [Vec<u64>],
    files: Vec<usize>,
}

impl SessionFamily<'_> {
    fn units(mut self, besides: &[Option<EntireMetadata>], counts: &mut LineCounts) -> Vec<Lineage> {
        self.files.sort_by_key(|&at| (self.traces[at].begun, at));
        let (left, contained): (Vec<usize>, Vec<usize>) =
            self.files.iter().partition(|&&at| self.holder(at).is_none());
        let (silent, left): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|&&at| self.traces[at].items.is_empty());
        // A prefix without any message is one of its session.
        let begun = |at: &usize| {
            self.traces[*at].continues
                && left.iter().any(|&other| self.traces[other].id == self.traces[*at].id)
        };
        let (begun, silent): (Vec<usize>, Vec<usize>) = silent.into_iter().partition(begun);
        let (superseded, left): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|&&at| self.traces[at].superseded);
        let mut units = self.joined(&left, counts);
        // Unnamed runs of one task are in its group already.
        if units.len() > 1 && left.iter().any(|&at| self.traces[at].id.is_some()) {
            self.fork(&mut units, besides, counts);
        }
        units.extend(
            silent
                .into_iter()
                .chain(superseded)
                .map(|at| Lineage { parts: vec![(at, 0)], ..Lineage::default() }),
        );
        for unit in &mut units {
            let id = &self.traces[unit.parts[0].0].id;
            let same = |at: &usize| {
                unit.parts.iter().any(|part| part.0 == *at) || (id.is_some() && self.traces[*at].id == *id)
            };
            unit.files = self.files.iter().copied().filter(same).collect();
        }
        units.extend(contained.into_iter().chain(begun).map(|at| self.contained(at, counts)));
        units
    }

    /// Return the file that contains all of another; of equal ones the first by name.
    fn holder(&self, at: usize) -> Option<usize> {
        let (mine, sum) = (&self.traces[at], *self.sums[at].last()?);
        let holds = |&other: &usize| {
            let theirs = &self.traces[other];
            let begins = self.sums[other].get(mine.items.len() - 1) == Some(&sum);
            let equal = theirs.items.len() == mine.items.len();
            // Two runs of one task may have equal messages: without a name only equal files are one.
            let same = mine.id.is_some() || mine.continues || mine.whole == theirs.whole;
            other != at && begins && (!equal || (same && other < at))
        };
        self.files.iter().copied().find(holds)
    }

    fn contained(&self, at: usize, counts: &mut LineCounts) -> Lineage {
        let equal = |&other: &usize| other != at && self.traces[other].items == self.traces[at].items;
        counts.note(if self.files.iter().any(equal) { "copied_session" } else { "session_snapshot" });
        Lineage { parts: vec![(at, 0)], contained: true, ..Lineage::default() }
    }

    /// Append a file that continues another of the same session.
    fn joined(&self, files: &[usize], counts: &mut LineCounts) -> Vec<Lineage> {
        let mut units: Vec<Lineage> = Vec::new();
        for &at in files {
            let next = units.iter_mut().find_map(|unit| {
                let &(last, _) = unit.parts.last()?;
                Some((self.repeated(unit.parts[0].0, last, at)?, unit))
            });
            match next {
                Some((repeated, unit)) => {
                    counts.note("continued_session");
                    unit.parts.push((at, repeated));
                }
                None => units.push(Lineage { parts: vec![(at, 0)], ..Lineage::default() }),
            }
        }
        units
    }

    /// Return the number of items at the end of a file that its continuation repeats; None if it is not a
    /// continuation.
    fn repeated(&self, first: usize, last: usize, next: usize) -> Option<usize> {
        let [first, last, next] = [first, last, next].map(|at| &self.traces[at]);
        let named = next.continues && next.id.is_some() && next.id == first.id;
        if !named || first.items.first() == next.items.first() {
            return None;
        }
        let most = last.items.len().min(next.items.len());
        let repeats = |count: &usize| last.items[last.items.len() - count..] == next.items[..*count];
        let follows = last.ended > 0 && next.begun >= last.ended;
        (1..=most).rev().find(repeats).or(follows.then_some(0))
    }

    /// Set one group, and different ids, for sessions with a common beginning.
    fn fork(&self, units: &mut [Lineage], besides: &[Option<EntireMetadata>], counts: &mut LineCounts) {
        counts.notes_of("forked_session", units.len() as u64);
        let named = self.files.iter().map(|&at| &self.traces[at]);
        let root = named.clone().find_map(|trace| trace.forked_from.as_ref().or(trace.id.as_ref())).cloned();
        let beside =
            named.filter_map(|trace| EntireMetadata::last(besides.iter().flatten(), trace.id.as_deref()?));
        let group = beside.into_iter().find_map(|beside| beside.group.clone()).or_else(|| root.clone());
        let mut seen = Vec::new();
        for unit in units {
            unit.group.clone_from(&group);
            unit.root.clone_from(&root);
            let at = unit.parts[0].0;
            let id = &self.traces[at].id;
            let again = id.is_some() && seen.contains(&id);
            unit.mark = again.then(|| self.sums[at].last().copied().unwrap_or_default());
            seen.push(id);
        }
    }
}

/// Return a hash of a message as it is written.
pub(super) fn written_hash(message: &Message) -> u64 {
    let mut out = Vec::new();
    message.write(b"", &mut out);
    hash("message", &out)
}

/// Return a hash of a value that ignores the order of keys, and keys with null.
pub(super) fn hash_of(value: &Value) -> u64 {
    match value {
        Value::Object(fields) => {
            let held = fields.iter().filter(|(_, value)| !value.is_null());
            let sum = held.fold(0_u64, |sum, (key, value)| {
                sum.wrapping_add(pair(hash("key", key.as_bytes()), hash_of(value)))
            });
            hash("object", &sum.to_le_bytes())
        }
        Value::Array(items) => items.iter().fold(hash("array", b""), |sum, item| pair(sum, hash_of(item))),
        Value::String(text) => hash("text", text.as_bytes()),
        other => hash("scalar", other.to_string().as_bytes()),
    }
}

fn pair(one: u64, other: u64) -> u64 {
    hash("pair", &[one.to_le_bytes(), other.to_le_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(id: &str, from: Option<&str>, begun: i64, items: &[u64]) -> Trace {
        let mut links = vec![hash("id", id.as_bytes())];
        links.extend(from.map(|from| hash("id", from.as_bytes())));
        Trace {
            id: Some(id.to_owned()),
            forked_from: from.map(str::to_owned),
            continues: true,
            links,
            items: items.to_vec(),
            begun,
            ended: begun + 1,
            ..Trace::default()
        }
    }

    fn units_of(traces: &[Trace]) -> (Vec<Lineage>, Vec<(&'static str, u64)>) {
        let mut counts = LineCounts::default();
        let units = units(traces, &[], &mut counts);
        (units, counts.notes.into_iter().collect())
    }

    #[test]
    fn copies_and_snapshots_are_contained_whatever_their_order() {
        let of = |items: &[u64]| trace("a", None, 1, items);
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let all = [vec![1, 2], vec![1, 2, 3], vec![1, 2, 3]];
            let traces: Vec<Trace> = order.iter().map(|&at: &usize| of(&all[at])).collect();
            let (units, notes) = units_of(&traces);
            assert_eq!(units.iter().filter(|unit| !unit.contained).count(), 1);
            assert_eq!(notes, [("copied_session", 1), ("session_snapshot", 1)]);
        }
    }

    #[test]
    fn a_fork_that_differs_is_of_one_group_and_one_that_goes_on_holds_its_beginning() {
        let (units, notes) =
            units_of(&[trace("a", None, 1, &[1, 2, 3]), trace("b", Some("a"), 2, &[1, 2, 4])]);
        assert_eq!(units.iter().map(|unit| unit.group.as_deref()).collect::<Vec<_>>(), [Some("a"); 2]);
        assert_eq!((notes, units[1].mark), (vec![("forked_session", 2)], None));
        let (units, notes) = units_of(&[trace("a", None, 1, &[1, 2]), trace("b", Some("a"), 2, &[1, 2, 4])]);
        assert_eq!(units.iter().map(|unit| unit.contained).collect::<Vec<_>>(), [true, false]);
        assert_eq!(notes, [("session_snapshot", 1)]);
    }

    #[test]
    fn a_session_that_goes_on_in_another_file_is_one() {
        for (next, repeated) in [(vec![4, 5], 0), (vec![3, 4], 1), (vec![2, 3, 4], 2)] {
            let (units, notes) = units_of(&[trace("a", None, 1, &[1, 2, 3]), trace("a", None, 5, &next)]);
            assert_eq!(
                units.iter().map(|unit| &unit.parts[..]).collect::<Vec<_>>(),
                [[(0, 0), (1, repeated)]]
            );
            assert_eq!(notes, [("continued_session", 1)]);
        }
        let (units, _) = units_of(&[trace("a", None, 1, &[1, 2, 3]), trace("a", None, 5, &[1, 7])]);
        assert_eq!(units.iter().map(|unit| unit.mark.is_some()).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn sessions_of_their_own_stay_alone() {
        let (units, notes) = units_of(&[trace("a", None, 1, &[1, 2]), trace("b", None, 1, &[1, 2])]);
        assert!(notes.is_empty() && units.iter().all(|unit| !unit.contained && unit.group.is_none()));
    }

    #[test]
    fn a_file_of_several_sessions_is_marked_for_the_name_of_any() {
        let file = |names: [&str; 2], whole| Trace {
            name: Some(names[0].to_owned()),
            more_names: vec![names[1].to_owned()],
            items: vec![whole],
            whole,
            ..Trace::default()
        };
        let traces = [file(["a", "b"], 1), file(["c", "b"], 2), file(["d", "e"], 3), file(["e", "e"], 4)];
        let marks: Vec<_> = units_of(&traces).0.iter().map(|unit| unit.mark).collect();
        assert_eq!(marks, [None, Some(2), None, Some(4)]);
    }

    #[test]
    fn spaces_the_order_of_keys_and_nulls_do_not_count() {
        let of = |text: &str| hash_of(&serde_json::from_str(text).unwrap());
        let one = of(r#"{"a":[1,{"b":"c","n":null}],"d":true}"#);
        assert_eq!(one, of(r#"{ "d": true, "a": [1, {"b": "c"}] }"#));
        for other in [
            r#"{"a":[{"b":"c"},1],"d":true}"#,
            r#"{"a":[1,{"b":"c"},null],"d":true}"#,
            r#"{"a":["1",{"b":"c"}],"d":true}"#,
        ] {
            assert_ne!(one, of(other));
        }
    }
}
