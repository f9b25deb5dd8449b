//! KARL's records from transcripts, as its four taps write them.
//!
//! ```text
//! transcripts ──► convert ──► prompts ──► record ──────────────► reward, if asked for ──► output
//!                 protected   and their   calls, counts, time,
//!                             calls       next prompt's annotation
//! ```
//!
//! A record is one prompt with the tool calls that followed it: the taps open a buffer at a prompt, add each
//! call, and write the record when the agent stops. The last tap annotates a record at the next prompt; here
//! that prompt is in the transcript too. A prompt without a tool call has no record.
//!
//! Reference: Diomandeee/karl, `karl/trajectory_tap.py`, commits 7d5ef32 and c41d1c5.

mod annotation;
mod call;
mod prompt;
mod record;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use karl_log::atomic_output::{OutputKind, OutputTarget};
use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};
use karl_log::input::source::Source;
use karl_reward::Version;
use serde::Deserialize;

use self::prompt::prompts;
use self::record::{CHANNEL, RecordedSession};
use crate::convert::output::target_of;
use crate::convert::{ConvertSettings, Rate, RecordCounts, Report, convert_to};
use crate::tool_calls::calls;
use crate::tool_calls::trajectory::with;

/// File of KARL's records that were all made here, also an empty one. KARL's own store is never replaced.
const KIND: OutputKind = OutputKind {
    names: None,
    is_ours,
    edited: |_| Ok(None),
    foreign: "is not a file of KARL's records that convert wrote",
};

/// Look at the place of a file of records before any work is done.
///
/// # Errors
/// As [`OutputTarget::look`]; [`Error::Io`] if its folder does not exist.
pub fn target(path: &Path, force: bool) -> Result<OutputTarget> {
    target_of(path, &KIND, force)
}

/// Convert transcripts to KARL's records, completely or not at all. A record has a reward if the settings ask
/// for KARL's; without one, KARL's `backfill_rewards` computes it.
///
/// # Errors
/// As [`convert()`](crate::convert::convert), and [`Error::Layout`] if there is no tool call.
pub fn convert_to_karl(
    sources: Vec<Source>,
    target: &OutputTarget,
    settings: &ConvertSettings,
    watch: &Watch,
) -> Result<Report> {
    let scored = match settings.rate {
        Rate::Karl(version, weights) => Some((version, weights)),
        Rate::Log | Rate::Result => None,
    };
    let settings = ConvertSettings { rate: Rate::Log, ..settings.clone() };
    let reshape = |line: &[u8], out: &mut Vec<u8>| records(line, scored, out);
    convert_to(sources, target, &settings, Some(&reshape), watch)
}

/// Write the records of a trajectory; `None` if it is none.
fn records(line: &[u8], scored: Option<(Version, [f64; 3])>, out: &mut Vec<u8>) -> Option<RecordCounts> {
    with(line, |trajectory| {
        let mut counts = RecordCounts::default();
        let calls = calls(trajectory);
        let session = RecordedSession::new(trajectory, &calls);
        for (number, prompt) in prompts(&trajectory.messages).iter().enumerate() {
            match session.record(number, prompt, scored) {
                None => counts.without_calls += 1,
                Some(record) => {
                    counts.written += 1;
                    counts.rewarded += u64::from(record["outcome"]["reward_score"].is_number());
                    out.extend_from_slice(record.to_string().as_bytes());
                    out.push(b'\n');
                }
            }
        }
        counts
    })
}

/// Return whether every record of a file is one of ours.
fn is_ours(path: &Path) -> Result<bool> {
    #[derive(Deserialize)]
    struct Record {
        channel: String,
    }
    let io = |error| Error::io("read", path, error);
    let lines = BufReader::new(File::open(path).map_err(io)?).split(b'\n');
    for line in lines {
        let record = serde_json::from_slice::<Record>(&line.map_err(io)?);
        if !record.is_ok_and(|record| record.channel == CHANNEL) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_other_types_are_no_trajectory() {
        let record = |source: serde_json::Value| {
            let messages = json!([{"role": "user", "content": "go"}]);
            let line = json!({"id": "s", "source": source, "messages": messages}).to_string();
            records(line.as_bytes(), None, &mut Vec::new()).map(|counts| counts.without_calls)
        };
        assert_eq!(record(json!({"cwd": "/shop"})), Some(1));
        assert_eq!(record(json!({"cwd": 5})), None);
    }
}
