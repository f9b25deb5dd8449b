//! opencode: sessions, messages and parts in tables of a database (`collect` writes their rows as lines), in files of
//! their own under `storage/`, or in one document of `opencode export`.
//!
//! ```text
//! 1.x  session ◄── message {role, ..} ◄── part {type: text, reasoning, tool, file, ..}
//! 2.x  session_v2 ◄── session_message {type: user, assistant, .., content: [text, reasoning, tool]}, by seq
//! ```
//!
//! A database of 2.x still has the tables of 1.x, and its `session_message` has their messages too: a session with rows
//! there is read from them alone. The forms are those of opencode's `message-v2.ts` (1.x) and `session-message.ts` (2.x).

use std::collections::{BTreeMap, HashMap};

use karl_log::conversation::blocks::Block;
use karl_log::json::reference_parser;
use karl_log::time::timestamp;
use serde_json::{Map, Value};

use super::blocks::{answer, say_blocks};
use super::file_records::{Fates, PooledFile};
use super::json::{JsonTypes, LIST, OBJECT, TEXT, check, list, pick, quoted, source, text};
use super::message::{Conversation, Role};
use super::report::{EMPTY, LineCounts, NO_CONVERSATION, OTHER_BRANCH, count_type};
use super::run::{Head, Tokens};

/// Paths of a message or a part with the expected types.
const WANTED: [(&str, JsonTypes); 9] = [
    ("role", TEXT),
    ("type", TEXT),
    ("text", TEXT),
    ("tool", TEXT),
    ("callID", TEXT),
    ("state", OBJECT),
    ("state.status", TEXT),
    ("content", LIST),
    ("time", OBJECT),
];

/// Place of a record: file and number.
type Place = (usize, usize);

/// Row of a table.
struct Row {
    place: Place,
    value: Value,
    /// Number of the row in its session, in version 2.
    order: u64,
}

/// Rows of a table by id; the last one of an id counts.
type Rows = BTreeMap<String, Row>;

#[derive(Default)]
struct Tables {
    sessions: Rows,
    messages: Rows,
    parts: Rows,
    /// Messages of version 2.
    entries: Rows,
}

/// Read the sessions of some files.
pub(super) fn read(files: &[PooledFile], counts: &mut LineCounts) -> Vec<(Head, Conversation)> {
    let mut fates: Vec<Fates> = files.iter().map(|file| Fates::new(file.records.len())).collect();
    let mut tables = Tables::default();
    for (at, file) in files.iter().enumerate() {
        for (number, record) in file.records.iter().enumerate() {
            let kind = tables.add(&record.value, (at, number), &mut fates);
            count_type(&mut counts.types, kind.unwrap_or("(other)"), 1);
        }
    }
    let sessions = Reader { files, tables: &tables, fates: &mut fates, counts }.sessions();
    for fates in fates {
        fates.count(counts);
    }
    sessions
}

impl Tables {
    /// Take a record; return the name of its table.
    fn add(&mut self, value: &Value, place: Place, fates: &mut [Fates]) -> Option<&'static str> {
        if let Some(messages) = value.get("messages").filter(|_| value.get("info").is_some()) {
            self.export(value, messages, place, fates);
            return Some("export");
        }
        let (table, row) = match text(value, "opencode_table") {
            Some(table) => (table_of(table)?, row_of(value.get("row")?)),
            None => (storage_of(value)?, value.clone()),
        };
        let rows = match table {
            "session" => &mut self.sessions,
            "message" => &mut self.messages,
            "part" => &mut self.parts,
            _ => &mut self.entries,
        };
        put(rows, row, place, fates);
        Some(table)
    }

    /// Take the document of `opencode export`: a session and its messages, each with its parts.
    fn export(&mut self, value: &Value, messages: &Value, place: Place, fates: &mut [Fates]) {
        fates[place.0].keep(place.1);
        put(&mut self.sessions, value["info"].clone(), place, fates);
        for message in messages.as_array().into_iter().flatten() {
            put(&mut self.messages, message.get("info").cloned().unwrap_or_default(), place, fates);
            for part in list(message, "parts") {
                put(&mut self.parts, part.clone(), place, fates);
            }
        }
    }
}

/// Put a row in the place of an earlier one of its id.
fn put(rows: &mut Rows, value: Value, place: Place, fates: &mut [Fates]) {
    let Some(id) = text(&value, "id").map(str::to_owned) else { return };
    let order = value.get("seq").and_then(Value::as_u64).unwrap_or_default();
    if let Some(earlier) = rows.insert(id, Row { place, value, order })
        && earlier.place != place
    {
        fates[earlier.place.0].repeat(earlier.place.1);
    }
}

/// Return the table of a name, of any version.
fn table_of(name: &str) -> Option<&'static str> {
    let plain =
        name.split_once("_v").filter(|(_, version)| version.bytes().all(|byte| byte.is_ascii_digit()));
    match plain.map_or(name, |(plain, _)| plain) {
        "session" => Some("session"),
        "message" => Some("message"),
        "part" => Some("part"),
        "session_message" => Some("session_message"),
        _ => None,
    }
}

/// Return the table of a document under `storage/`.
fn storage_of(value: &Value) -> Option<&'static str> {
    if text(value, "messageID").is_some() {
        Some("part")
    } else if text(value, "sessionID").is_some() {
        Some("message")
    } else {
        text(value, "projectID").map(|_| "session")
    }
}

/// Return a row of a database with the keys of a document: `data` is the JSON text of the rest.
fn row_of(row: &Value) -> Value {
    let mut fields = match text(row, "data").and_then(|data| reference_parser::parse(data.as_bytes()).ok()) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let Value::Object(columns) = row else { return Value::Null };
    for (column, value) in columns {
        let key = match &**column {
            "session_id" => "sessionID",
            "message_id" => "messageID",
            "parent_id" => "parentID",
            "project_id" => "projectID",
            "fork_session_id" => "forkSessionID",
            key => key,
        };
        if key != "data" && !value.is_null() {
            // Some columns hold JSON texts.
            let parsed = value.as_str().filter(|text| text.starts_with(['{', '[']));
            let parsed = parsed.and_then(|text| reference_parser::parse(text.as_bytes()).ok());
            fields.insert(key.to_owned(), parsed.unwrap_or_else(|| value.clone()));
        }
    }
    Value::Object(fields)
}

struct Reader<'a> {
    files: &'a [PooledFile],
    tables: &'a Tables,
    fates: &'a mut [Fates],
    counts: &'a mut LineCounts,
}

/// Id, tool, content, success and time of the result of a call.
type CallResult = (String, String, Value, Option<bool>, Vec<u8>);

/// Session while its messages are read.
#[derive(Default)]
struct Session {
    talk: Conversation,
    tokens: Tokens,
    /// Calls of the last message, whose results follow it.
    results: Vec<CallResult>,
}

impl<'a> Reader<'a> {
    fn sessions(mut self) -> Vec<(Head, Conversation)> {
        let mut of: BTreeMap<&str, [Vec<&'a Row>; 2]> = BTreeMap::new();
        let mut parts: HashMap<&str, Vec<&'a Row>> = HashMap::new();
        for id in self.tables.sessions.keys() {
            of.entry(id).or_default();
        }
        for (version, rows) in [&self.tables.messages, &self.tables.entries].into_iter().enumerate() {
            for row in rows.values() {
                if let Some(session) = text(&row.value, "sessionID") {
                    of.entry(session).or_default()[version].push(row);
                }
            }
        }
        for part in self.tables.parts.values() {
            parts.entry(text(&part.value, "messageID").unwrap_or_default()).or_default().push(part);
        }
        let starts = sub_agent_calls(self.tables);
        let mut all = Vec::new();
        for (id, [messages, mut entries]) in of {
            let mut session = Session::default();
            let reverted = self.tables.sessions.get(id).and_then(|row| reverted(&row.value));
            let used_second = !entries.is_empty();
            // Ids grow with time, so that the messages of version 1 are in order; version 2 numbers them.
            entries.sort_by_key(|row| row.order);
            for row in &messages {
                let parts =
                    parts.get(text(&row.value, "id").unwrap_or_default()).map_or(&[][..], Vec::as_slice);
                if used_second {
                    self.repeat(row, parts);
                } else {
                    self.message(&mut session, row, parts, reverted.as_deref());
                }
            }
            for row in entries {
                self.entry(&mut session, row, reverted.as_deref());
            }
            all.push(self.end(id, session, &starts));
        }
        all
    }

    /// Count a message of version 1 that version 2 has too.
    fn repeat(&mut self, message: &Row, parts: &[&Row]) {
        for row in parts.iter().copied().chain([message]) {
            self.fates[row.place.0].repeat(row.place.1);
        }
    }

    fn set(&mut self, row: &Row, outcome: Result<(), &'static str>) {
        // A document that holds all of a session is used if anything of it is.
        let is_export = self.files[row.place.0].records[row.place.1].value.get("messages").is_some();
        match outcome {
            Err(reason) if is_export => self.counts.note(reason),
            outcome => self.fates[row.place.0].set(row.place.1, outcome),
        }
    }

    fn locate(&mut self, row: &Row) {
        let file = &self.files[row.place.0];
        self.counts.locate(&file.name, file.records[row.place.1].offset);
    }

    /// Read a message of version 1 and its parts.
    fn message(&mut self, session: &mut Session, row: &Row, parts: &[&'a Row], reverted: Option<&str>) {
        let message = &row.value;
        check(message, &WANTED, self.counts);
        self.locate(row);
        let is_model = text(message, "role") == Some("assistant");
        let left_out = match text(message, "role") {
            _ if reverted.is_some_and(|from| text(message, "id").is_some_and(|id| id >= from)) => {
                Some(OTHER_BRANCH)
            }
            Some("user" | "assistant") if message.get("summary") == Some(&Value::Bool(true)) => {
                Some("compact_summary")
            }
            Some("user" | "assistant") => None,
            _ => Some("unknown_role"),
        };
        if let Some(reason) = left_out {
            parts.iter().copied().chain([row]).for_each(|row| self.set(row, Err(reason)));
            return;
        }
        let before = session.talk.messages.len();
        let mut step = Vec::new();
        for part in parts {
            check(&part.value, &WANTED, self.counts);
            self.locate(part);
            // A step is one message of the model.
            if is_model && text(&part.value, "type") == Some("step-start") {
                self.turn(session, message, &mut step);
            }
            let fate = part_block(&part.value, is_model);
            match fate {
                Ok(block) => {
                    self.set(part, Ok(()));
                    step.push((block, &part.value));
                }
                Err(reason) => self.set(part, Err(reason)),
            }
        }
        self.turn(session, message, &mut step);
        let is_said = session.talk.messages.len() > before;
        self.set(row, if is_said { Ok(()) } else { Err(EMPTY) });
        if is_model {
            session.count(message);
            session.fail(message.get("error"));
        }
    }

    /// Add the message of some parts, and the results of its calls.
    fn turn(&mut self, session: &mut Session, message: &Value, step: &mut Vec<(Block, &'a Value)>) {
        let parts = std::mem::take(step);
        let is_model = text(message, "role") == Some("assistant");
        let role = if is_model { Role::Assistant } else { Role::User };
        let moment = moment(message.pointer("/time/created").or_else(|| message.get("time_created")));
        if !is_model {
            for (block, part) in parts {
                let first = say_blocks(&mut session.talk, role, &[block], &moment, self.counts);
                if let (Ok(first), Some(true)) = (first, part.get("synthetic").and_then(Value::as_bool)) {
                    session.talk.messages[first].origin = b"synthetic".to_vec();
                }
            }
            return;
        }
        let results: Vec<_> = parts.iter().filter_map(|(_, part)| result_of(part)).collect();
        let blocks: Vec<Block> = parts.into_iter().map(|(block, _)| block).collect();
        if let Ok(first) = say_blocks(&mut session.talk, role, &blocks, &moment, self.counts) {
            session.talk.messages[first].model = quoted(message, "modelID");
        }
        session.results = results;
        session.answer(self.counts);
    }

    /// Read a message of version 2.
    fn entry(&mut self, session: &mut Session, row: &'a Row, reverted: Option<&str>) {
        let entry = &row.value;
        check(entry, &WANTED, self.counts);
        self.locate(row);
        if reverted.is_some_and(|from| text(entry, "id").is_some_and(|id| id >= from)) {
            return self.set(row, Err(OTHER_BRANCH));
        }
        let moment = moment(entry.pointer("/time/created").or_else(|| entry.get("time_created")));
        let fate = session.entry(entry, &moment, self.counts);
        self.set(row, fate);
    }

    fn end(&mut self, id: &str, session: Session, starts: &HashMap<&str, String>) -> (Head, Conversation) {
        let none = Value::Null;
        let row = self.tables.sessions.get(id);
        let facts = row.map_or(&none, |row| &row.value);
        if let Some(row) = row {
            self.set(row, Ok(()));
        }
        let file = row.map_or_else(|| self.files[0].name.clone(), |row| self.files[row.place.0].name.clone());
        let mut more = pick(facts, &["title", "version", "agent"]);
        more.extend(facts.get("directory").map(|folder| ("cwd".to_owned(), folder.clone())));
        let parent = text(facts, "parentID").map(|parent| (parent.to_owned(), starts.get(id).cloned()));
        let root = self.root(id);
        let head = Head {
            id: id.to_owned(),
            session: Some(root),
            parent,
            tokens: session.tokens,
            source: source("opencode", &file, more),
            ..Head::default()
        };
        (head, session.talk)
    }

    /// Return the session that a sub-agent or a fork began in.
    fn root(&self, id: &str) -> String {
        let mut root = id;
        for _ in 0..self.tables.sessions.len() {
            let Some(row) = self.tables.sessions.get(root) else { break };
            let Some(before) = text(&row.value, "parentID").or_else(|| text(&row.value, "forkSessionID"))
            else {
                break;
            };
            root = before;
        }
        root.to_owned()
    }
}

/// Return the call that started each sub-agent, by its session.
fn sub_agent_calls(tables: &Tables) -> HashMap<&str, String> {
    let child = |part: &'_ Value| -> Option<String> {
        let metadata = part.pointer("/state/metadata").or_else(|| part.get("metadata"))?;
        ["sessionId", "sessionID", "session_id"].iter().find_map(|key| text(metadata, key).map(str::to_owned))
    };
    let parts = tables.parts.values().map(|row| &row.value);
    let content = tables.entries.values().flat_map(|row| list(&row.value, "content"));
    let mut starts = HashMap::new();
    for part in parts.chain(content) {
        let Some(session) = child(part) else { continue };
        let Some((known, _)) = tables.sessions.get_key_value(&session) else { continue };
        if let Some(call) = text(part, "callID").or_else(|| text(part, "id")) {
            starts.insert(&**known, call.to_owned());
        }
    }
    starts
}

/// Return the first message that the user took back.
fn reverted(session: &Value) -> Option<String> {
    text(session.get("revert")?, "messageID").map(str::to_owned)
}

/// Return a part of version 1 as a block; the reason if it is none.
fn part_block(part: &Value, is_model: bool) -> Result<Block, &'static str> {
    match text(part, "type") {
        Some("text") if part.get("ignored") == Some(&Value::Bool(true)) => Err(NO_CONVERSATION),
        Some("text") => match text(part, "text") {
            Some(text) if !text.is_empty() => Ok(Block::Text(text.to_owned())),
            _ => Err(EMPTY),
        },
        Some("reasoning") if is_model => match text(part, "text") {
            Some(text) if !text.is_empty() => Ok(Block::Thinking(text.to_owned())),
            _ => Err(EMPTY),
        },
        Some("tool") => Ok(Block::Call {
            id: text(part, "callID").unwrap_or_default().to_owned(),
            name: text(part, "tool").unwrap_or_default().to_owned(),
            arguments: part.pointer("/state/input").cloned().unwrap_or_default(),
        }),
        // The text of a file is in a part of its own, made by opencode.
        Some("file") if text(part, "mime").is_some_and(|mime| mime.starts_with("text/")) => {
            Err(NO_CONVERSATION)
        }
        Some("file") => Ok(Block::Other(text(part, "mime").unwrap_or("file").to_owned())),
        _ => Err(NO_CONVERSATION),
    }
}

/// Return id, tool, content and success of the result of a call, if it has ended.
fn result_of(call: &Value) -> Option<CallResult> {
    let state = call.get("state")?;
    let id = ["callID", "id"].iter().find_map(|key| text(call, key)).unwrap_or_default();
    let name = ["tool", "name"].iter().find_map(|key| text(call, key)).unwrap_or_default();
    let ended = [state.pointer("/time/end"), call.pointer("/time/completed")];
    let moment = moment(ended.into_iter().flatten().next());
    let (content, success) = match text(state, "status") {
        Some("completed") => (state.get("output").or_else(|| state.get("content")), true),
        Some("error") => (error_of(state), false),
        _ => return None,
    };
    Some((id.to_owned(), name.to_owned(), content.cloned().unwrap_or_default(), Some(success), moment))
}

/// Return the error of a call: a text in version 1, an object in version 2.
fn error_of(state: &Value) -> Option<&Value> {
    let error = state.get("error")?;
    error.get("message").or_else(|| error.pointer("/data/message")).or(Some(error))
}

impl Session {
    /// Add the results that the calls of a message have.
    fn answer(&mut self, counts: &mut LineCounts) {
        for (id, name, content, success, moment) in std::mem::take(&mut self.results) {
            answer(&mut self.talk, &id, &name, &content, success, &moment, counts);
        }
    }

    /// Read a message of version 2.
    fn entry(&mut self, entry: &Value, moment: &[u8], counts: &mut LineCounts) -> Result<(), &'static str> {
        let words = |key: &str| {
            text(entry, key).filter(|text| !text.is_empty()).map(|text| Block::Text(text.to_owned()))
        };
        let kind = text(entry, "type").unwrap_or_default();
        let mut blocks: Vec<Block> = Vec::new();
        let (role, origin) = match kind {
            "user" => {
                blocks.extend(words("text"));
                let files = list(entry, "files").iter().map(|file| text(file, "mime").unwrap_or("file"));
                blocks.extend(files.map(|mime| Block::Other(mime.to_owned())));
                (Role::User, "")
            }
            "synthetic" | "skill" => {
                blocks.extend(words("text"));
                (Role::User, kind)
            }
            "system" => {
                blocks.extend(words("text"));
                (Role::System, "")
            }
            // In the words in which opencode tells the model of it.
            "shell" => {
                let output = entry.pointer("/output/output").and_then(Value::as_str).unwrap_or_default();
                let command = text(entry, "command").unwrap_or_default();
                blocks.push(Block::Text(format!("Shell command: {command}\n\n{output}")));
                (Role::User, kind)
            }
            "assistant" => return self.turn(entry, moment, counts),
            "compaction" => return Err("compact_summary"),
            "idle" if text(entry, "outcome") == Some("interrupted") => {
                self.talk.interrupt();
                return Ok(());
            }
            _ => return Err(NO_CONVERSATION),
        };
        let first = say_blocks(&mut self.talk, role, &blocks, moment, counts)?;
        self.talk.messages[first].origin = origin.as_bytes().to_vec();
        Ok(())
    }

    fn turn(&mut self, entry: &Value, moment: &[u8], counts: &mut LineCounts) -> Result<(), &'static str> {
        let block = |part: &Value| match text(part, "type") {
            Some("tool") => Block::Call {
                id: text(part, "id").unwrap_or_default().to_owned(),
                name: text(part, "name").unwrap_or_default().to_owned(),
                arguments: part.pointer("/state/input").cloned().unwrap_or_default(),
            },
            _ => karl_log::conversation::blocks::block(part),
        };
        let content = list(entry, "content");
        self.count(entry);
        let blocks: Vec<Block> = content.iter().map(block).collect();
        let first = say_blocks(&mut self.talk, Role::Assistant, &blocks, moment, counts)?;
        self.talk.messages[first].model =
            entry.get("model").map(|model| quoted(model, "id")).unwrap_or_default();
        self.results = content.iter().filter_map(result_of).collect();
        self.answer(counts);
        self.fail(entry.get("error"));
        Ok(())
    }

    /// Mark the last message if the user or an error stopped the model.
    fn fail(&mut self, error: Option<&Value>) {
        match error
            .filter(|error| error.is_object())
            .map(|error| text(error, "name").or_else(|| text(error, "type")))
        {
            Some(Some("MessageAbortedError" | "aborted")) => self.talk.interrupt(),
            Some(_) => self.talk.note_lost_connection(),
            None => {}
        }
    }

    fn count(&mut self, message: &Value) {
        let count = |path: &str| message.pointer(path).and_then(Value::as_u64);
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or_default().saturating_add(more));
            }
        };
        add(&mut self.tokens.input, count("/tokens/input"));
        add(&mut self.tokens.output, count("/tokens/output"));
        add(&mut self.tokens.output, count("/tokens/reasoning"));
        add(&mut self.tokens.cache_read, count("/tokens/cache/read"));
        add(&mut self.tokens.cache_creation, count("/tokens/cache/write"));
    }
}

/// Return a moment in milliseconds since 1970 as the text that other transcripts have; empty if there is none.
fn moment(milliseconds: Option<&Value>) -> Vec<u8> {
    milliseconds.and_then(Value::as_i64).and_then(timestamp).map(String::into_bytes).unwrap_or_default()
}
