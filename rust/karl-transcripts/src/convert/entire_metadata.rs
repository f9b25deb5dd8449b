//! Group of a transcript, and the share of the committed lines that its agent wrote, from the `metadata.json` that
//! Entire keeps beside each snapshot of a session. That share says who typed, not what the work was worth: it is a
//! component of an outcome, and no reward.

use std::path::Path;

use karl_log::detect::read_sidecar;
use karl_log::input::source::Source;
use karl_log::json::reference_parser;
use karl_log::time::milliseconds;
use serde_json::Value;

/// Facts about a session.
#[derive(Clone, Debug)]
pub(crate) struct EntireMetadata {
    /// Id of the snapshot, which a trailer of the commit names.
    pub(crate) checkpoint: String,
    /// Id of the session; the old form begins with a date.
    session: String,
    /// Time of writing, in milliseconds since 1970.
    pub(crate) created: i64,
    /// Branch that the session worked on.
    pub(super) group: Option<String>,
    /// Fraction of the committed lines that the agent wrote.
    pub(crate) attribution: Option<f64>,
}

impl EntireMetadata {
    /// Name of the file.
    pub(crate) const NAME: &str = "metadata.json";

    /// Look beside a transcript.
    pub(super) fn of_transcript(transcript: &Source) -> Option<Self> {
        Self::next_to(Path::new(&*transcript.name))
    }

    /// Look beside a file; standard input has no such place.
    pub(crate) fn next_to(file: &Path) -> Option<Self> {
        let text =
            read_sidecar(&Some(file).filter(|file| *file != Path::new("-"))?.with_file_name(Self::NAME))
                .ok()?;
        Self::of(&reference_parser::parse(&text).ok()?)
    }

    /// Return whether it is about a session.
    pub(crate) fn is_of(&self, session: &str) -> bool {
        !session.is_empty() && self.session.ends_with(session)
    }

    fn of(whole: &Value) -> Option<Self> {
        let text = |key: &str| whole.get(key).and_then(Value::as_str);
        let checkpoint = text("checkpoint_id")?.to_owned();
        let percent = whole.pointer("/initial_attribution/agent_percentage").and_then(Value::as_f64);
        Some(Self {
            checkpoint,
            session: text("session_id")?.to_owned(),
            created: text("created_at").and_then(|at| milliseconds(at.as_bytes())).unwrap_or_default(),
            group: text("branch").map(str::to_owned),
            attribution: percent.filter(|percent| percent.is_finite()).map(|percent| percent / 100.0),
        })
    }

    /// Return the last entry about a session.
    pub(super) fn last<'b>(all: impl Iterator<Item = &'b Self>, session: &str) -> Option<&'b Self> {
        all.filter(|beside| beside.is_of(session)).max_by_key(|beside| beside.created)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_that_names_the_session_counts() {
        let beside = |session: &str, created: &str, percent: f64| {
            EntireMetadata::of(
                &json!({"checkpoint_id": "c", "session_id": session, "created_at": created, "branch": "b",
                "initial_attribution": {"agent_percentage": percent}}),
            )
            .unwrap()
        };
        let all = [
            beside("2026-01-06-s1", "2026-01-06T13:00:00Z", 25.0),
            beside("s1", "2026-01-06T12:00:00Z", 50.0),
            beside("s2", "2026-01-07T12:00:00Z", 75.0),
        ];
        assert_eq!(EntireMetadata::last(all.iter(), "s1").unwrap().attribution, Some(0.25));
        assert!(EntireMetadata::last(all.iter(), "s3").is_none());
        assert!(EntireMetadata::of(&json!({"session_id": "s1"})).is_none());
    }
}
