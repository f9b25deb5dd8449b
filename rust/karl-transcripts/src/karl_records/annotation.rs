//! Annotation of a record by the next prompt of its session.

use crate::outcomes::next_turn::{NextTurn, TurnVerdict, judge, matches};

/// Name of the rule for turns that ask to take the work back.
const UNDO: &str = "undo";

/// Signals of the next prompt; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Annotation {
    /// True if it corrects the work.
    pub(super) correction: Option<bool>,
    /// True if it takes the work back, or makes the same request again.
    pub(super) redo: Option<bool>,
    /// True if there is a next prompt. The end of a transcript does not show that the session ended.
    pub(super) continued: Option<bool>,
}

impl Annotation {
    /// Annotate the work on a prompt by the turn after it.
    pub(super) fn by(prompt: &str, next: Option<&NextTurn>) -> Self {
        let Some(next) = next else { return Self::default() };
        let verdict = judge(&next.text, &next.before).map(|judgement| judgement.verdict);
        let corrects = verdict.map(|verdict| verdict == TurnVerdict::Corrects);
        let again = words(prompt) == words(&next.text);
        let undoes = || matches(&next.text, &next.before).iter().any(|rule| rule.name == UNDO);
        let redo = match corrects {
            _ if again => Some(true),
            Some(true) if undoes() => Some(true),
            Some(false) => Some(false),
            _ => None,
        };
        Self { correction: corrects, redo, continued: Some(true) }
    }
}

/// Return the words of a prompt, without case and marks.
fn words(prompt: &str) -> Vec<String> {
    let words = prompt.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(prompt: &str, next: &str) -> [Option<bool>; 3] {
        let next = NextTurn { message: 2, before: "Done.".to_owned(), text: next.to_owned() };
        let found = Annotation::by(prompt, Some(&next));
        [found.correction, found.redo, found.continued]
    }

    #[test]
    fn the_next_prompt_annotates() {
        let [yes, no] = [Some(true), Some(false)];
        for (next, wanted) in [
            ("it still doesn't work", [yes, None, yes]),
            ("revert that", [yes, yes, yes]),
            ("thanks, looks good", [no, no, yes]),
            ("what does this function return?", [None, None, yes]),
            ("Why is the till SLOW?", [None, yes, yes]),
        ] {
            assert_eq!(by("why is the till slow", next), wanted, "{next}");
        }
        assert_eq!(Annotation::by("why is the till slow", None), Annotation::default());
    }
}
