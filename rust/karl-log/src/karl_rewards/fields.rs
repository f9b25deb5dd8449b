//! Fields of a reward in the outcome of a record.

use karl_reward::{Reward, SCORES};

use super::lazy::{Raw, quoted};
use crate::json::dumps::push_float;

/// Fields in KARL's order, each with its text; memory for one record after the other.
#[derive(Debug, Default)]
pub(super) struct KarlFields {
    text: Vec<u8>,
    /// Name of each field, and where its text ends.
    ends: Vec<(&'static str, usize)>,
}

impl KarlFields {
    /// Take the fields of a reward and its advantage.
    pub(super) fn fill(&mut self, reward: &Reward, advantage: f64) {
        self.text.clear();
        self.ends.clear();
        self.float("reward_score", reward.score);
        self.components(reward);
        for (name, score) in SCORES.iter().zip(&reward.signals) {
            self.float(name, *score);
        }
        self.float("advantage", advantage);
        self.text.extend_from_slice(b"\"scored\"");
        self.ends.push(("annotation_status", self.text.len()));
    }

    fn float(&mut self, name: &'static str, value: f64) {
        push_float(&mut self.text, value);
        self.ends.push((name, self.text.len()));
    }

    #[allow(clippy::cast_possible_truncation, reason = "a count of four flags")]
    fn components(&mut self, reward: &Reward) {
        for (at, part) in reward.components.iter().enumerate() {
            self.text.extend_from_slice(if at == 0 { b"{\"" } else { b", \"" });
            self.text.extend_from_slice(part.name.as_bytes());
            self.text.extend_from_slice(b"\": ");
            if part.whole {
                self.text.extend_from_slice((part.value as i64).to_string().as_bytes());
            } else {
                push_float(&mut self.text, part.value);
            }
        }
        self.text.push(b'}');
        self.ends.push(("reward_components", self.text.len()));
    }

    /// Append an outcome with the fields: each in the place that it has there, or after the others. An outcome that the
    /// record does not have is empty.
    pub(super) fn push(&self, outcome: &[u8], out: &mut Vec<u8>) {
        let mut placed = [false; 16];
        let mut separator: &[u8] = b"{";
        let mut push = |key: &[u8], value: &[u8]| {
            out.extend_from_slice(separator);
            out.push(b'"');
            out.extend_from_slice(key);
            out.extend_from_slice(b"\": ");
            out.extend_from_slice(value);
            separator = b", ";
        };
        if !outcome.is_empty() {
            // The visit fails nowhere, and the text is an object.
            let _ = Raw(outcome).parts(true, |before, value| {
                let key = quoted(before);
                let key = &key[1..key.len() - 1];
                match self.ends.iter().position(|(name, _)| name.as_bytes() == key) {
                    None => push(key, value.0),
                    Some(at) => {
                        push(key, self.value(at));
                        placed[at] = true;
                    }
                }
                Ok(())
            });
        }
        for (at, (name, _)) in self.ends.iter().enumerate().filter(|(at, _)| !placed[*at]) {
            push(name.as_bytes(), self.value(at));
        }
        out.push(b'}');
    }

    fn value(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        &self.text[start..self.ends[at].1]
    }
}
