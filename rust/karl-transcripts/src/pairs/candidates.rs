//! Candidates for pairs: which trajectories are of one request, and which of them the user kept.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;

use karl_core::rng::id128;
use karl_log::time::milliseconds;
use serde::Deserialize;
use serde_json::Value;

use super::request::words;

/// Reason of a pair: the user went back in a session, and another branch was kept.
const REWOUND: &str = "rewound";

/// Reason of a pair: the user made the request again in a new session.
const ASKED_AGAIN: &str = "asked_again";

/// Shortest request in bytes that is compared between sessions: "run the tests" is made every day.
const REQUEST_BYTES: usize = 40;

/// Longest time in milliseconds between a request and its repetition.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// One trajectory: its place, and what it is compared by.
pub(super) struct PairCandidate {
    offset: u64,
    length: usize,
    session: String,
    pub(super) abandoned: bool,
    /// Hash of working directory and request; None for a sub-agent, or if one is unknown or short.
    request: Option<u128>,
    started: Option<i64>,
}

/// Two trajectories of one request.
pub(super) struct Candidate<'e> {
    pub(super) chosen: &'e PairCandidate,
    pub(super) rejected: &'e PairCandidate,
    pub(super) reason: &'static str,
}

impl PairCandidate {
    /// Return its line.
    pub(super) fn text(&self, trajectories: &File) -> io::Result<Vec<u8>> {
        let mut text = vec![0; self.length];
        trajectories.read_exact_at(&mut text, self.offset)?;
        Ok(text)
    }
}

#[derive(Deserialize)]
struct Header {
    id: Option<String>,
    parent: Option<Value>,
    started_at: Option<String>,
    source: Value,
    messages: Vec<Said>,
}

#[derive(Deserialize)]
struct Said {
    role: String,
    content: String,
    /// Sender of a message in the user's name: a command is used again every day.
    origin: Option<String>,
}

/// Return the trajectories of a file, without those of sub-agents.
pub(super) fn entries(trajectories: &File) -> io::Result<Vec<PairCandidate>> {
    let (mut found, mut offset, mut line) = (Vec::new(), 0, Vec::new());
    let mut reader = BufReader::with_capacity(1 << 20, trajectories);
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(found);
        }
        found.extend(entry(&line, offset, length));
        offset += length as u64;
    }
}

fn entry(line: &[u8], offset: u64, length: usize) -> Option<PairCandidate> {
    let header: Header = serde_json::from_slice(line).ok()?;
    if header.parent.is_some_and(|parent| !parent.is_null()) {
        return None;
    }
    let text = |key: &str| header.source.get(key).and_then(Value::as_str).map(str::to_owned);
    let asked = header.messages.iter().find(|message| message.role == "user");
    let typed = asked.filter(|asked| asked.origin.is_none());
    let words = typed.map(|asked| words(&asked.content)).filter(|words| words.len() >= REQUEST_BYTES);
    let request =
        words.zip(text("cwd")).map(|(words, folder)| id128(format!("{folder}\0{words}").as_bytes()));
    Some(PairCandidate {
        offset,
        length,
        session: text("session_id").or(header.id)?,
        abandoned: header.source.get("abandoned") == Some(&Value::Bool(true)),
        request,
        started: header.started_at.and_then(|moment| milliseconds(moment.as_bytes())),
    })
}

/// Return the candidates.
pub(super) fn candidates(entries: &[PairCandidate]) -> Vec<Candidate<'_>> {
    let sessions: Vec<&PairCandidate> = entries.iter().filter(|entry| !entry.abandoned).collect();
    let kept: HashMap<&str, &PairCandidate> =
        sessions.iter().map(|entry| (&entry.session[..], *entry)).collect();
    let branches = entries.iter().filter(|entry| entry.abandoned).filter_map(|rejected| {
        kept.get(&rejected.session[..]).map(|&chosen| Candidate { chosen, rejected, reason: REWOUND })
    });
    branches.chain(retries(&sessions)).collect()
}

/// Return each session with the next one of the same request and folder, within a day. Sessions that begin at the
/// same moment are forks of one, of which both were kept.
fn retries<'e>(sessions: &[&'e PairCandidate]) -> Vec<Candidate<'e>> {
    let mut asked: BTreeMap<u128, Vec<(i64, &PairCandidate)>> = BTreeMap::new();
    for &entry in sessions {
        if let (Some(request), Some(started)) = (entry.request, entry.started) {
            asked.entry(request).or_default().push((started, entry));
        }
    }
    let mut found = Vec::new();
    for mut attempts in asked.into_values() {
        attempts.sort_by_key(|&(started, entry)| (started, entry.offset));
        let next = attempts.windows(2).filter(|two| (1..=DAY).contains(&(two[1].0 - two[0].0)));
        found.extend(next.map(|two| Candidate { chosen: two[1].1, rejected: two[0].1, reason: ASKED_AGAIN }));
    }
    found.sort_by_key(|pair| pair.rejected.offset);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(offset: u64, request: u128, started: i64) -> PairCandidate {
        let (session, request, started) = (offset.to_string(), Some(request), Some(started));
        PairCandidate { offset, length: 1, session, abandoned: false, request, started }
    }

    #[test]
    fn a_retry_is_the_next_session_of_the_same_request_within_a_day() {
        let sessions = [
            session(0, 1, 1000),
            session(1, 1, 5000),
            session(2, 1, 5000 + DAY + 1),
            session(3, 2, 6000),
            // A fork begins with the same message.
            session(4, 3, 7000),
            session(5, 3, 7000),
        ];
        let found = retries(&sessions.iter().collect::<Vec<_>>());
        let found: Vec<_> = found.iter().map(|pair| (pair.chosen.offset, pair.rejected.offset)).collect();
        assert_eq!(found, [(1, 0)]);
    }

    #[test]
    fn a_branch_is_rejected_for_its_session() {
        let branch = PairCandidate { abandoned: true, session: "0".to_owned(), ..session(7, 1, 1000) };
        let entries = [session(0, 1, 1000), branch];
        let found = candidates(&entries);
        assert_eq!((found.len(), found[0].reason), (1, REWOUND));
        assert_eq!((found[0].chosen.offset, found[0].rejected.offset), (0, 7));
    }
}
