//! Preference pairs that a user made, from transcripts.
//!
//! ```text
//! transcripts ──► convert, with abandoned branches ──► candidates ──► pair ──► redacted row ──► output
//!                 one trajectory a branch               branch and     common    prompt, chosen,
//!                                                       kept session,  prompt    rejected, reason
//!                                                       retries
//! ```
//!
//! A candidate is two trajectories of one request of which the user kept one: a branch of a session that was
//! rewound, or a session whose request was made again in a new one. It becomes a row if both begin alike up to
//! an answer of the model and then differ. Every candidate is written or dropped by name.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use karl_core::rng::id128;
use karl_log::atomic_output::{OutputKind, OutputTarget};
use karl_log::cancel::Watch;
use karl_log::conversation::{Example, example};
use karl_log::error::{Error, Result};
use karl_log::format::preset::TRAJECTORY;
use karl_log::format::{Fields, Overrides};
use karl_log::input::source::Source;
use karl_log::json::reference_parser;
use karl_log::time::milliseconds;
use karl_redact::Protection;
use karl_redact::secrets::{SecretCounts, add};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::convert::report::CountsByName;
use crate::convert::run::Output;
use crate::convert::{self, ConvertSettings, Rate, Report, TranscriptKind, convert};

/// Settings of a search for pairs.
#[derive(Clone, Debug)]
pub struct PairsSettings {
    /// Kind of all files, if it is not to be detected.
    pub kind: Option<TranscriptKind>,
    /// Shape of the rows.
    pub shape: PairShape,
    /// What is replaced in the rows; secrets are counted too.
    pub protection: Protection,
    /// Maximum length of a line or document in bytes.
    pub max_line_bytes: usize,
    /// Number of threads; at least one is used.
    pub threads: usize,
}

/// Shape of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairShape {
    /// Lists of messages, as TRL reads them.
    Chat,
    /// Texts, as mlx-lm-lora reads them for DPO: one prompt and one answer.
    Text,
}

impl PairShape {
    /// Every shape.
    pub const ALL: [Self; 2] = [Self::Chat, Self::Text];

    /// Return the name used in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Text => "text",
        }
    }

    /// Return the shape of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }
}

/// Account of a search for pairs.
#[derive(Clone, Debug, Default)]
pub struct PairsReport {
    /// Account of the conversion before it.
    pub converted: Report,
    /// Sessions, without sub-agents and abandoned branches.
    pub sessions: u64,
    /// Candidates, by the reason why one is preferred.
    pub candidates: CountsByName,
    /// Pairs written, by that reason.
    pub pairs: CountsByName,
    /// Candidates that are not written, by name.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Secrets replaced, by family.
    pub secrets: SecretCounts,
    /// Bytes written.
    pub written_bytes: u64,
}

impl PairsReport {
    fn new(converted: Report) -> Self {
        Self { converted, ..Self::default() }
    }

    /// Count a candidate, and return its line; empty if it is dropped.
    fn count(&mut self, reason: &'static str, made: std::result::Result<String, DropReason>) -> String {
        *self.candidates.entry(reason).or_default() += 1;
        match made {
            Ok(line) => {
                *self.pairs.entry(reason).or_default() += 1;
                line
            }
            Err(drop) => {
                *self.dropped.entry(drop.name()).or_default() += 1;
                String::new()
            }
        }
    }

    /// Return the number of pairs written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.pairs.values().sum()
    }
}

/// Start of every row.
const MARK: &[u8] = b"{\"prompt\":";

/// File of pairs, also an empty one.
const KIND: OutputKind =
    OutputKind { names: None, is_ours, edited: |_| Ok(None), foreign: "is not a file of preference pairs" };

/// Look at the place of a file of pairs before any work is done.
///
/// # Errors
/// As [`OutputTarget::look`].
pub fn target(path: &Path, force: bool) -> Result<OutputTarget> {
    OutputTarget::look(path, &KIND, force)
}

fn is_ours(path: &Path) -> Result<bool> {
    let io = |error| Error::io("read", path, error);
    let mut begin = Vec::new();
    File::open(path).map_err(io)?.take(MARK.len() as u64).read_to_end(&mut begin).map_err(io)?;
    Ok(begin.is_empty() || begin == MARK)
}

/// Find the preference pairs of transcripts, and write them, completely or not at all; without any, nothing is
/// written. The order of the rows is that of the sessions' starts.
///
/// # Errors
/// As [`convert()`].
pub fn pairs(
    sources: Vec<Source>,
    target: &OutputTarget,
    settings: &PairsSettings,
    watch: &Watch,
) -> Result<PairsReport> {
    let folder = target.hidden_directory()?;
    let path = folder.path().join("trajectories.jsonl");
    let wanted = ConvertSettings {
        kind: settings.kind,
        rate: Rate::Log,
        max_line_bytes: settings.max_line_bytes,
        threads: settings.threads,
        abandoned: true,
        protection: Protection::default(),
    };
    let converted = convert(sources, &convert::target(&path, false)?, &wanted, watch)?;
    let mut report = PairsReport::new(converted);
    let trajectories = File::open(&path).map_err(|error| Error::io("read", &path, error))?;
    let entries = entries(&trajectories).map_err(|error| Error::io("read", &path, error))?;
    report.sessions = entries.iter().filter(|entry| !entry.abandoned).count() as u64;
    let output = Output::create(target, settings.protection.clone())?;
    for (at, pair) in candidates(&entries).iter().enumerate() {
        watch.advance(0)?;
        let text = |entry: &PairCandidate| {
            entry.text(&trajectories).map_err(|error| Error::io("read", &path, error))
        };
        let made = row(&text(pair.chosen)?, &text(pair.rejected)?, pair.reason, settings.shape);
        let line = report.count(pair.reason, made);
        add(&mut report.secrets, output.put(at, line.into_bytes())?);
    }
    if report.written() == 0 {
        return Ok(report);
    }
    report.written_bytes = output.finish()?;
    Ok(report)
}

/// Reason of a pair: the user went back in a session, and another branch was kept.
const REWOUND: &str = "rewound";

/// Reason of a pair: the user made the request again in a new session.
const ASKED_AGAIN: &str = "asked_again";

/// Shortest request in bytes that is compared between sessions: "run the tests" is made every day.
const REQUEST_BYTES: usize = 40;

/// Longest time in milliseconds between a request and its repetition.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// One trajectory: its place, and what it is compared by.
struct PairCandidate {
    offset: u64,
    length: usize,
    session: String,
    abandoned: bool,
    /// Hash of working directory and request; None for a sub-agent, or if one is unknown or short.
    request: Option<u128>,
    started: Option<i64>,
}

/// Two trajectories of one request.
struct Candidate<'e> {
    chosen: &'e PairCandidate,
    rejected: &'e PairCandidate,
    reason: &'static str,
}

impl PairCandidate {
    /// Return its line.
    fn text(&self, trajectories: &File) -> io::Result<Vec<u8>> {
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
    messages: Vec<HeaderMessage>,
}

#[derive(Deserialize)]
struct HeaderMessage {
    role: String,
    content: String,
    /// Sender of a message in the user's name: a command is used again every day.
    origin: Option<String>,
}

/// Return the trajectories of a file, without those of sub-agents.
fn entries(trajectories: &File) -> io::Result<Vec<PairCandidate>> {
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
fn candidates(entries: &[PairCandidate]) -> Vec<Candidate<'_>> {
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

/// Reason to drop a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DropReason {
    /// One of them is not a conversation that ends with the model.
    NoConversation,
    /// The user asked for something else on the branch that was kept.
    RequestChanged,
    /// One of them has no answer to the request.
    NoAnswer,
    /// The connection broke inside one of them: the user did not reject what was never said in full.
    CutAnswer,
    /// Both answers are equal, or one is the beginning of the other.
    SameAnswer,
    /// The shape needs one prompt and one answer, and there are more messages.
    NotOneAnswer,
}

impl DropReason {
    const fn name(self) -> &'static str {
        match self {
            Self::NoConversation => "no_conversation",
            Self::RequestChanged => "request_changed",
            Self::NoAnswer => "no_answer",
            Self::CutAnswer => "cut_answer",
            Self::SameAnswer => "same_answer",
            Self::NotOneAnswer => "not_one_answer",
        }
    }
}

/// Make the line of a pair of trajectories.
fn row(
    chosen: &[u8],
    rejected: &[u8],
    reason: &'static str,
    shape: PairShape,
) -> std::result::Result<String, DropReason> {
    let [kept, mut left] = [read(chosen)?, read(rejected)?];
    align_requests(&kept.messages, &mut left.messages);
    let prompt = prompt(&kept.messages, &left.messages)?;
    let [chosen, rejected] = [kept.answer(prompt)?, left.answer(prompt)?];
    if chosen.starts_with(rejected) || rejected.starts_with(chosen) {
        return Err(DropReason::SameAnswer);
    }
    let mut row = match shape {
        PairShape::Chat => chat(&kept.messages[..prompt], chosen, rejected, kept.tools.clone()),
        PairShape::Text => text(&kept.messages[..prompt], chosen, rejected)?,
    };
    row.insert("reason".to_owned(), reason.into());
    row.insert("karl_fast".to_owned(), json!({"chosen_id": kept.id, "rejected_id": left.id}));
    Ok(Value::Object(row).to_string() + "\n")
}

/// Trajectory as trainers read it.
struct Attempt {
    id: Value,
    tools: Option<Value>,
    messages: Vec<Value>,
    /// True for each message inside which the connection broke.
    cut: Vec<bool>,
}

impl Attempt {
    /// Return the answer after the first messages.
    fn answer(&self, prompt: usize) -> std::result::Result<&[Value], DropReason> {
        let answer = answer(&self.messages[prompt..])?;
        let is_cut = self.cut[prompt..].iter().take(answer.len()).any(|&cut| cut);
        if is_cut { Err(DropReason::CutAnswer) } else { Ok(answer) }
    }
}

/// Key of a message inside which the connection broke.
const CUT: &str = "cut";

fn read(record: &[u8]) -> std::result::Result<Attempt, DropReason> {
    let mut record = reference_parser::parse_rollout(record).map_err(|_| DropReason::NoConversation)?;
    let id = record["id"].clone();
    // A message that is not to be learned may be compared.
    for message in record["messages"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if message.contains_key(CUT) {
            message.remove("weight");
        }
    }
    let fields =
        Fields::new(&TRAJECTORY, &Overrides::default(), None).map_err(|_| DropReason::NoConversation)?;
    match example(record, &fields).map_err(|_| DropReason::NoConversation)?.example {
        Example::Chat { mut messages, tools } => {
            let cut = messages.iter().map(|message| message[CUT] == true).collect();
            messages.iter_mut().filter_map(Value::as_object_mut).for_each(keep_template_keys);
            Ok(Attempt { id, tools, messages, cut })
        }
        _ => Err(DropReason::NoConversation),
    }
}

/// Keys of a message that chat templates read. Its time and success differ between equal messages.
const KEYS: [&str; 6] = ["role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"];

fn keep_template_keys(message: &mut Map<String, Value>) {
    message.retain(|key, _| KEYS.contains(&key.as_str()));
}

/// Give two requests that differ in spaces or case the text of the first.
fn align_requests(kept: &[Value], left: &mut [Value]) {
    let is_user = |message: &&Value| message["role"] == "user";
    let first = kept.iter().find(is_user).map(|message| &message["content"]);
    let other = left.iter_mut().find(|message| message["role"] == "user");
    if let (Some(first), Some(other)) = (first, other)
        && let (Some(one), Some(two)) = (first.as_str(), other["content"].as_str())
        && words(one) == words(two)
    {
        other["content"] = first.clone();
    }
}

/// Return a request in lower case, with single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Return the number of messages that both have in common before an answer of the model in each.
fn prompt(kept: &[Value], left: &[Value]) -> std::result::Result<usize, DropReason> {
    let common = kept.iter().zip(left).take_while(|(one, other)| one == other).count();
    let next = [kept.get(common), left.get(common)];
    let is_answer = |message: Option<&Value>| message.is_some_and(|message| message["role"] == "assistant");
    match next {
        _ if common == 0 => Err(DropReason::RequestChanged),
        [None, _] | [_, None] => Err(DropReason::SameAnswer),
        _ if next.into_iter().all(is_answer) => Ok(common),
        // A tool's results that differ belong to answers that were alike.
        [Some(one), Some(other)] if one["role"] == "tool" && other["role"] == "tool" => kept[..common]
            .iter()
            .rposition(|message| message["role"] == "assistant")
            .ok_or(DropReason::NoAnswer),
        _ => Err(DropReason::RequestChanged),
    }
}

/// Return the messages up to the user's next turn, without results after the model's last message.
fn answer(messages: &[Value]) -> std::result::Result<&[Value], DropReason> {
    let end = messages.iter().position(|message| message["role"] == "user").unwrap_or(messages.len());
    let last = messages[..end].iter().rposition(|message| message["role"] == "assistant");
    last.map(|last| &messages[..=last]).ok_or(DropReason::NoAnswer)
}

fn chat(prompt: &[Value], chosen: &[Value], rejected: &[Value], tools: Option<Value>) -> Map<String, Value> {
    let parts = [("prompt", prompt), ("chosen", chosen), ("rejected", rejected)];
    let parts = parts.map(|(key, messages)| (key, Value::Array(messages.to_vec())));
    let tools = tools.map(|tools| ("tools", tools));
    parts.into_iter().chain(tools).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Return a row of texts; a system prompt has a key of its own.
fn text(
    prompt: &[Value],
    chosen: &[Value],
    rejected: &[Value],
) -> std::result::Result<Map<String, Value>, DropReason> {
    let (system, asked) = match prompt {
        [asked] => (None, asked),
        [system, asked] if system["role"] == "system" => (Some(system), asked),
        _ => return Err(DropReason::NotOneAnswer),
    };
    let only = |messages: &[Value]| match messages {
        [message] if message.get("tool_calls").is_none() => Ok(message["content"].clone()),
        _ => Err(DropReason::NotOneAnswer),
    };
    let parts =
        [("prompt", asked["content"].clone()), ("chosen", only(chosen)?), ("rejected", only(rejected)?)];
    let system = system.map(|system| ("system", system["content"].clone()));
    Ok(parts.into_iter().chain(system).map(|(key, value)| (key.to_owned(), value)).collect())
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

    fn record(id: &str, messages: &Value) -> Vec<u8> {
        json!({"karl_fast_trajectory": 1, "id": id, "messages": messages}).to_string().into_bytes()
    }

    fn says(role: &str, content: &str) -> Value {
        json!({"role": role, "content": content})
    }

    /// Return a message with the time of its trajectory.
    fn at(message: &Value, time: &str) -> Value {
        json!({"role": message["role"], "content": message["content"], "timestamp": time})
    }

    fn pair_of(
        chosen: &[Value],
        rejected: &[Value],
        shape: PairShape,
    ) -> std::result::Result<Value, DropReason> {
        let timed = |id: &str, all: &[Value]| record(id, &all.iter().map(|one| at(one, id)).collect());
        let [chosen, rejected] = [("c", chosen), ("r", rejected)].map(|(id, all)| timed(id, all));
        row(&chosen, &rejected, "rewound", shape).map(|line| serde_json::from_str(&line).unwrap())
    }

    #[test]
    fn answers_to_one_request_are_a_pair_up_to_the_next_turn() {
        let begin = [says("user", "add a test"), says("assistant", "which?"), says("user", "for add")];
        let chosen =
            [&begin[..], &[says("assistant", "done"), says("user", "thanks"), says("assistant", "!")]];
        let rejected = [&begin[..], &[says("assistant", "I cannot")]];
        let pair = pair_of(&chosen.concat(), &rejected.concat(), PairShape::Chat).unwrap();
        assert_eq!(
            pair,
            json!({"prompt": begin, "chosen": [says("assistant", "done")],
                "rejected": [says("assistant", "I cannot")], "reason": "rewound",
                "karl_fast": {"chosen_id": "c", "rejected_id": "r"}})
        );
        assert_eq!(
            pair_of(&chosen.concat(), &rejected.concat(), PairShape::Text),
            Err(DropReason::NotOneAnswer)
        );
    }

    #[test]
    fn requests_that_differ_in_spaces_and_case_are_one() {
        let chosen = [says("user", "Add  a test"), says("assistant", "done")];
        let rejected = [says("user", "add a test\n"), says("assistant", "no")];
        let pair = pair_of(&chosen, &rejected, PairShape::Text).unwrap();
        assert_eq!([&pair["prompt"], &pair["chosen"], &pair["rejected"]], ["Add  a test", "done", "no"]);
    }

    #[test]
    fn an_answer_that_a_lost_connection_cut_is_not_rejected() {
        let asked = says("user", "add a test");
        let cut = json!({"role": "assistant", "content": "I wi", "cut": true, "weight": 0});
        let [whole, part] = [json!([asked, says("assistant", "done")]), json!([asked, cut])];
        let [whole, part] = [record("c", &whole), record("r", &part)];
        for (chosen, rejected) in [(&whole, &part), (&part, &whole)] {
            assert_eq!(row(chosen, rejected, "rewound", PairShape::Chat), Err(DropReason::CutAnswer));
        }
    }

    #[test]
    fn a_candidate_that_is_no_pair_is_dropped_by_name() {
        let asked = says("user", "add a test");
        let done = [asked.clone(), says("assistant", "done")];
        for (other, wanted) in [
            (vec![asked.clone(), says("assistant", "done")], DropReason::SameAnswer),
            (vec![says("user", "add two tests"), says("assistant", "done")], DropReason::RequestChanged),
            (vec![asked.clone()], DropReason::NoConversation),
            (vec![asked.clone(), says("user", "now"), says("assistant", "x")], DropReason::RequestChanged),
        ] {
            assert_eq!(pair_of(&done, &other, PairShape::Chat), Err(wanted), "{other:?}");
        }
    }
}
