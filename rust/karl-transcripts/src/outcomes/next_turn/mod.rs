//! Judgement of a user's next turn: does it correct the agent's work, or go on?
//!
//! ```text
//! turn ──► own words ──► sentences ──► rules ──► corrects, goes on, or neither
//!          no code, no    statement or
//!          text of tools  question
//! ```
//!
//! The rules are for English. `tests/golden/next_turn.json` holds labels of real turns, and
//! `tests/all/next_turn.rs` measures every rule by them. A turn that no rule matches is not judged, nor one that
//! matches rules of both kinds.

mod own_words;
mod rules;

pub(super) use self::own_words::own_words;
use self::own_words::{Sentence, is_of_a_tool, sentences};
use self::rules::{PatternScope, pattern};
pub use self::rules::{RULES, TurnRule, TurnVerdict};

/// Verdict on a turn, with the rule that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Verdict.
    pub verdict: TurnVerdict,
    /// Name of the first rule that matched.
    pub rule: &'static str,
}

/// Turn of a user that follows work of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextTurn {
    /// Index of its first message.
    pub message: usize,
    /// Last words of the agent before it.
    pub before: String,
    /// Text of the turn: messages in a row are joined by line breaks.
    pub text: String,
}

/// Return the turns of a user after the first, from the role and text of each message.
pub fn next_turns<'m>(messages: impl IntoIterator<Item = (&'m str, &'m str)>) -> Vec<NextTurn> {
    let mut turns: Vec<NextTurn> = Vec::new();
    let (mut before, mut worked, mut open) = ("", false, false);
    for (message, (role, text)) in messages.into_iter().enumerate() {
        match (role, turns.last_mut()) {
            ("user", Some(turn)) if open => {
                turn.text.push('\n');
                turn.text.push_str(text);
            }
            ("user", _) if worked => {
                turns.push(NextTurn { message, before: before.to_owned(), text: text.to_owned() });
                (worked, open) = (false, true);
            }
            ("assistant", _) => {
                before = if text.is_empty() { before } else { text };
                (worked, open) = (true, false);
            }
            _ => open = false,
        }
    }
    turns
}

/// Judge a turn by the rules that are on; `before` is what the agent said last.
#[must_use]
pub fn judge(turn: &str, before: &str) -> Option<Judgement> {
    let matched: Vec<&TurnRule> = matches(turn, before).into_iter().filter(|rule| rule.on).collect();
    let first = matched.first()?;
    let is_clear = matched.iter().all(|rule| rule.verdict == first.verdict);
    is_clear.then_some(Judgement { verdict: first.verdict, rule: first.name })
}

/// Return every rule that matches a turn, also those that are off.
#[must_use]
pub fn matches(turn: &str, before: &str) -> Vec<&'static TurnRule> {
    let lower = turn.to_lowercase().replace('’', "'");
    if is_of_a_tool(&lower) {
        return Vec::new();
    }
    let text = own_words(&lower);
    let sentences = sentences(&text);
    let matches = |(at, rule): (usize, &'static TurnRule)| {
        pattern(at)
            .is_some_and(|pattern| applies(rule.scope, pattern, &text, &sentences, before))
            .then_some(rule)
    };
    RULES.iter().enumerate().filter_map(matches).collect()
}

/// Return whether a tool wrote a turn in the user's name.
#[must_use]
pub fn is_written_by_tool(turn: &str) -> bool {
    is_of_a_tool(&turn.to_lowercase())
}

/// Longest text in bytes whose sentences are about the work before it; a longer one begins work of its own, and
/// tells a story.
const SHORT: usize = 600;

/// End of the agent's words, in characters, in which a question makes the next turn an answer.
const ASKED: usize = 200;

fn applies(
    scope: PatternScope,
    pattern: &regex::bytes::Regex,
    text: &str,
    sentences: &[Sentence<'_>],
    before: &str,
) -> bool {
    let in_sentence = |sentence: &&Sentence<'_>| pattern.is_match(sentence.text.as_bytes());
    match scope {
        PatternScope::Text => pattern.is_match(text.as_bytes()),
        PatternScope::Sentence | PatternScope::Statement if text.len() > SHORT => false,
        PatternScope::Sentence => sentences.iter().any(|sentence| in_sentence(&sentence)),
        PatternScope::Statement => {
            sentences.iter().filter(|one| !one.is_question).any(|one| in_sentence(&one))
        }
        PatternScope::UnaskedStart => {
            let asked = before.trim_end().chars().rev().take(ASKED).any(|letter| letter == '?');
            sentences.first().filter(|first| !asked && !first.is_question).as_ref().is_some_and(in_sentence)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(turn: &str, before: &str) -> Option<TurnVerdict> {
        judge(turn, before).map(|judgement| judgement.verdict)
    }

    #[test]
    fn a_turn_corrects_or_goes_on_or_is_not_judged() {
        let (corrects, on) = (Some(TurnVerdict::Corrects), Some(TurnVerdict::GoesOn));
        for (turn, wanted) in [
            ("revert that, the tests are failing now", corrects),
            ("it still doesn't work", corrects),
            ("--- FAIL: TestAdd (0.01s)\n    add_test.go:9: got 3", corrects),
            ("you are not correct: the hook has a prompt", corrects),
            ("No, that is wrong: use euros", corrects),
            ("nope. It's not what I asked for", corrects),
            ("no, leave it", None),
            ("actually, let us look at the other file", None),
            ("I would have expected a single file", corrects),
            ("yes please", on),
            ("commit and push", on),
            ("B) is fine", on),
            ("what does this function return?", None),
            ("is this test failing?", None),
            // A rule of each kind: neither.
            ("ok, but the build fails", None),
            ("<task-notification>the tests are failing</task-notification>", None),
            ("```\nthe tests are failing\n```", None),
            ("", None),
        ] {
            assert_eq!(verdict(turn, "Done."), wanted, "{turn}");
        }
    }

    #[test]
    fn turns_follow_work_and_messages_in_a_row_are_one() {
        let messages = [
            ("user", "first"),
            ("user", "more of the first"),
            ("assistant", "did it"),
            ("assistant", ""),
            ("tool", "ok"),
            ("user", "no"),
            ("user", "not so"),
            ("assistant", "again"),
            ("user", "thanks"),
        ];
        let turns = next_turns(messages);
        let turn = |message, before: &str, text: &str| NextTurn {
            message,
            before: before.to_owned(),
            text: text.to_owned(),
        };
        assert_eq!(turns, [turn(5, "did it", "no\nnot so"), turn(8, "again", "thanks")]);
    }

    #[test]
    fn every_pattern_compiles_and_names_differ() {
        for (at, rule) in RULES.iter().enumerate() {
            assert!(pattern(at).is_some(), "{}", rule.name);
            assert!(RULES[..at].iter().all(|other| other.name != rule.name), "{}", rule.name);
        }
    }
}
