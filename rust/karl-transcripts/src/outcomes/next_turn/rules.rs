//! Rules that judge a turn: names, scopes and patterns.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

/// Verdict on a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnVerdict {
    /// It says that the work before it is wrong, failing, incomplete or unwanted, or asks to redo it.
    Corrects,
    /// It accepts the work, chooses, or asks to deliver it.
    GoesOn,
}

/// Part of a turn that a pattern is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternScope {
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
    pub verdict: TurnVerdict,
    /// True if [`judge`](super::judge) uses it. A rule is on if it matches at least five of the labelled turns,
    /// and is right on at least 0.8 of them.
    pub on: bool,
    pub(super) scope: PatternScope,
    /// Alternatives, for text in lower case.
    alternatives: &'static [&'static str],
}

impl TurnRule {
    const fn new(
        name: &'static str,
        verdict: TurnVerdict,
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
pub(super) fn pattern(at: usize) -> Option<&'static Regex> {
    PATTERNS[at].as_ref()
}

/// Patterns of bytes without Unicode classes: with them, bounded repetitions are large and slow.
static PATTERNS: LazyLock<Vec<Option<Regex>>> = LazyLock::new(|| {
    let compile =
        |rule: &TurnRule| RegexBuilder::new(&rule.alternatives.join("|")).unicode(false).build().ok();
    RULES.iter().map(compile).collect()
});

use self::PatternScope::{Sentence, Statement, Text, UnaskedStart};
use self::TurnVerdict::{Corrects, GoesOn};

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
