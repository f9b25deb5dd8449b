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

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use self::PatternScope::{Sentence, Statement, Text, UnaskedStart};
use self::Verdict::{Corrects, GoesOn};

/// Verdict on a turn, with the rule that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Verdict.
    pub verdict: Verdict,
    /// Name of the first rule that matched.
    pub rule: &'static str,
}

/// Verdict on a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It says that the work before it is wrong, failing, incomplete or unwanted, or asks to redo it.
    Corrects,
    /// It accepts the work, chooses, or asks to deliver it.
    GoesOn,
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
    pattern: &Regex,
    text: &str,
    sentences: &[SentenceText<'_>],
    before: &str,
) -> bool {
    let in_sentence = |sentence: &&SentenceText<'_>| pattern.is_match(sentence.text.as_bytes());
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

/// Part of a turn that a pattern is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternScope {
    /// Whole text.
    Text,
    /// Each sentence of a short text.
    Sentence,
    /// Each sentence of a short text that is not a question.
    Statement,
    /// First sentence, if it is a statement and the agent asked nothing.
    UnaskedStart,
}

/// Rule for turns of a user.
#[derive(Debug)]
pub struct TurnRule {
    /// Name.
    pub name: &'static str,
    /// Verdict on the turns that it matches.
    pub verdict: Verdict,
    /// True if [`judge`] uses it. A rule is on if it matches at least five of the labelled turns,
    /// and is right on at least 0.8 of them.
    pub on: bool,
    scope: PatternScope,
    /// Alternatives, for text in lower case.
    alternatives: &'static [&'static str],
}

impl TurnRule {
    const fn new(
        name: &'static str,
        verdict: Verdict,
        scope: PatternScope,
        alternatives: &'static [&'static str],
    ) -> Self {
        Self { name, verdict, on: true, scope, alternatives }
    }

    const fn off(self) -> Self {
        Self { on: false, ..self }
    }
}

/// Return the pattern of the rule at a place in [`RULES`].
fn pattern(at: usize) -> Option<&'static Regex> {
    PATTERNS[at].as_ref()
}

/// Patterns of bytes without Unicode classes: with them, bounded repetitions are large and slow.
static PATTERNS: LazyLock<Vec<Option<Regex>>> = LazyLock::new(|| {
    let compile =
        |rule: &TurnRule| RegexBuilder::new(&rule.alternatives.join("|")).unicode(false).build().ok();
    RULES.iter().map(compile).collect()
});

/// Every rule.
pub static RULES: [TurnRule; 17] = [
    // Asks to take work back.
    TurnRule::new("undo", Corrects, Sentence, &[
        r"\b(revert|undo|roll(ed)? ?back|restore) (it|that|this|the|my|those|these|your)\b",
        r"\bremove (it|that|this|them|the [a-z_ -]{1,40}) again\b",
        r"\bstart over\b",
        r"^(oh |ok |okay |please |and )?(can (you|we) )?(please )?(delete|drop) (it|that|this|those|them)\b",
    ]),
    // Work still fails, or shows the same as before.
    TurnRule::new("still_failing", Corrects, Statement, &[
        r"\bstill (not working|failing|fails?|broken|wrong|happen\w*|get|getting|seeing|shows?|showing|reads|says|the same|does(n't| not)|is(n't| not))\b",
        r"\bdoes(n't| not) work\b",
        r"\b(not|isn't|aren't) working\b",
        r"\bdidn't (help|fix)\b",
    ]),
    // A build, test or linter fails, or an error came.
    TurnRule::new("fails", Corrects, Statement, &[
        r"^.{0,120}\b(builds?|tests?|test\w+|test:\w+|lint|linter|linting|checks?|ci|pipeline|compil\w+)\b\W{0,2}(is |are |was |were |now |again |still |also |keeps? )*(fail(s|ed|ing|z)?|broken|breaks|red)\b",
        r"^(fix|address) (the )?(issues in |errors in )?\W?(mise |run )?lint",
        r"\b(has|have|you) (broken|broke)\b",
        r"^we (fail|broke|break)",
        r"\bgot (a )?test fail\w*\b",
        r"^.{0,80}\b(getting|got|seeing|have|hit|get) (this |these |an? |the |some |now |still )*([a-z]+ )?(errors?|exceptions?|failures?|import cycle)\b",
        r"\b(shows?|throw(s|ing)|gives?|reports?) (a bunch of |an? |the |these |this |me |following )*(errors?|failures?|exceptions?)\b",
        r"^fix\b[^.?\n]{0,40}(: |\.[a-z]{1,4}:\d)",
        r"\bseems? to hang\b",
        r"\bfail(s|ing)? (on|in) (the )?(ci|github|actions|build)",
    ]),
    // Output of a failed run.
    TurnRule::new("pasted_failure", Corrects, Text, &[
        r"(?m)^\s*--- fail\b",
        r"traceback \(most recent call last\)",
        r"\bexit code [1-9]",
        r"\bissues found\b",
        r"npm err!",
        r"\A(remote|fatal|error): ",
        r"\Ai.{0,60}\berror: ",
    ]),
    // Something is wrong.
    TurnRule::new("wrong", Corrects, Statement, &[
        r"^((no|nope|nah|hm+|sorry)[,.! ]+)?(you|that|this|it|the [a-z ]{0,30}(comment|part|message|output|name|order|value|number|path))\b[^.]{0,30}\b(wrong|incorrect|inaccurate|not (right|correct|true|expected))\b",
        r"^((no|nope|nah)[,.! ]+)?(that's|it's|you're) (wrong|incorrect|not (right|correct|true|expected|what))",
        r"^(wrong|incorrect)\b",
        r"\bnot set correctly\b",
        r"\bdoes(n't| not) seem right\b",
    ]),
    // A no that answers no question.
    TurnRule::new("no", Corrects, UnaskedStart, &[
        r"^(no|nope|nah)\b",
    ]).off(),
    // Forbids a step.
    TurnRule::new("forbids", Corrects, Statement, &[
        r"^(please )?let'?s (not|pause)\b",
        r"^(please )?(do not|don't) (do|use|add|change|remove|touch|run|stash|create|write|commit|push|make)\b",
        r"\bhold on\b",
    ]).off(),
    // The agent misunderstood.
    TurnRule::new("misunderstood", Corrects, Statement, &[
        r"\bi (actually |really |just )?(meant|said|asked for|told you|did not ask|didn't ask)\b",
        r"\byou (forgot|missed|misunderstood|should(n't| not)? have)\b",
        r"\bnot what i (asked|meant|said|wanted)\b",
    ]).off(),
    // Something expected does not appear.
    TurnRule::new("not_shown", Corrects, Statement, &[
        r"\bi (don't|do not|didn't|did not|haven't|can't|cannot) (see|find|get)\b",
        r"\bi('m| am) not (seeing|getting)\b",
        r"\bwould have expected\b",
        r"\bdoes(n't| not) (show|display|appear|clear|contain|include|match|fire|exist|happen)\b",
        r"\bdidn't (appear|happen|show)\b",
    ]),
    // Names something to do instead.
    TurnRule::new("instead", Corrects, Sentence, &[
        r"\binstead\b",
        r"\brather than\b",
    ]).off(),
    // Asks to change what was made.
    TurnRule::new("reword", Corrects, Text, &[
        r"\A(can|could) (you|we) (change|swap|make)\b",
        r"\Aswap\b",
    ]).off(),
    // Agrees, or says to continue.
    TurnRule::new("yes", GoesOn, Text, &[
        r"\A(yes|yep|yeah|yup|sure|ok|okay|alright|right|cool|great|perfect|nice|awesome|good|thanks|thank you|lgtm|ship it|sounds good|looks good|go ahead|do it|do that|continue|proceed|please continue|let's (go|do|continue|keep|commit|proceed))\b",
    ]),
    // Asks to commit, push or release.
    TurnRule::new("deliver", GoesOn, Text, &[
        r"\A(please |now |then |and |make a [a-z ]{0,20})?(commit|push|force push|merge|create a pr|open a pr|open up|release|deploy|ship|tag)(,| (it|this|that|the|and|please|push|commit|then|to|a|with|with main|from|all|up|changes|what)\b|[.!]|\s*\z)",
    ]),
    // Chooses one of the offered.
    TurnRule::new("choice", GoesOn, Text, &[
        r"\A\W{0,1}([0-9]{1,2}|[a-d])\b[.),]?(\s|\z)",
    ]),
    // Thanks or praise.
    TurnRule::new("praise", GoesOn, Text, &[
        r"\b(thanks|thank you|well done|nice work|good job|works now|working now|it works|love it|perfect)\b",
    ]).off(),
    // Begins another task.
    TurnRule::new("new_task", GoesOn, Text, &[
        r"\A(one more thing|next|now (let's|can)|great, new|new (task|change|issue)|also,? )",
    ]).off(),
    // Asks for tests.
    TurnRule::new("test_request", GoesOn, Text, &[
        r"\A(can|could) (you|we) (also )?(add|write|create) (an? |some |the )?(simple |integration |unit |e2e )*tests?\b",
        r"\Aadd (an? |some )?tests?\b",
    ]),
];

/// One sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SentenceText<'t> {
    text: &'t str,
    is_question: bool,
}

/// Beginnings of texts that a tool writes in the user's name.
const OF_TOOLS: [&str; 12] = [
    "<task-notification",
    "<system-reminder",
    "<bash-",
    "<command-",
    "<local-command",
    "<teammate",
    "<new-diagnostics",
    "this session is being continued",
    "base directory for this skill",
    "stop hook feedback",
    "caveat: ",
    "[request interrupted",
];

/// Return whether a tool wrote the turn.
fn is_of_a_tool(turn: &str) -> bool {
    let turn = turn.trim_start();
    OF_TOOLS.iter().any(|begin| turn.starts_with(begin))
}

/// Code blocks, and what an editor adds to a turn.
static NOT_OWN: LazyLock<Option<regex::Regex>> = LazyLock::new(|| {
    regex::Regex::new(
        "(?s)```.*?```|<ide_selection>.*?</ide_selection>|<ide_opened_file>.*?</ide_opened_file>\
         |<system-reminder>.*?</system-reminder>|</?channel\\b[^>]*>",
    )
    .ok()
});

/// Return a turn without code blocks and without what an editor adds.
pub(in crate::outcomes) fn own_words(turn: &str) -> String {
    let own = NOT_OWN.as_ref().map(|pattern| pattern.replace_all(turn, " "));
    own.as_deref().unwrap_or(turn).trim().to_owned()
}

/// Return the sentences of a text; each line ends one.
fn sentences(text: &str) -> Vec<SentenceText<'_>> {
    text.lines().flat_map(in_line).collect()
}

fn in_line(line: &str) -> Vec<SentenceText<'_>> {
    let (mut found, mut from) = (Vec::new(), 0);
    let ends = line.match_indices(['.', '!', '?']).map(|(at, mark)| at + mark.len());
    let ends = ends.filter(|&end| line[end..].chars().next().is_none_or(char::is_whitespace));
    for end in ends.chain([line.len()]) {
        found.extend(sentence(&line[from..end]));
        from = end;
    }
    found
}

fn sentence(text: &str) -> Option<SentenceText<'_>> {
    let is_question = text.trim_end().ends_with('?');
    let text = text.trim_start_matches([' ', '\t', '-', '*', '>', '"', '\'', '(', '…', '.']);
    (!text.trim().is_empty()).then_some(SentenceText { text, is_question })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(turn: &str, before: &str) -> Option<Verdict> {
        judge(turn, before).map(|judgement| judgement.verdict)
    }

    #[test]
    fn a_turn_corrects_or_goes_on_or_is_not_judged() {
        let (corrects, on) = (Some(Verdict::Corrects), Some(Verdict::GoesOn));
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

    #[test]
    fn marks_and_lines_end_sentences() {
        let found = sentences("v1.2 is out. why? \n- a list\n\"quoted\"...");
        let found: Vec<_> = found.iter().map(|one| (one.text, one.is_question)).collect();
        assert_eq!(
            found,
            [("v1.2 is out.", false), ("why?", true), ("a list", false), ("quoted\"...", false)]
        );
    }

    #[test]
    fn code_and_what_an_editor_adds_are_left_out() {
        let turn = "<ide_opened_file>a.rs failed</ide_opened_file> look\n```\nerror: x\n```\nplease";
        assert_eq!(own_words(turn), "look\n \nplease");
        assert!(is_of_a_tool("  <task-notification>") && !is_of_a_tool("see <task-notification>"));
    }
}
