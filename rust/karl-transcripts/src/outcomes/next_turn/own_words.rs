//! Words of the user in a turn: what tools add is left out, and sentences are separated.

use std::sync::LazyLock;

use regex::Regex;

/// One sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sentence<'t> {
    pub(super) text: &'t str,
    pub(super) is_question: bool,
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
pub(super) fn is_of_a_tool(turn: &str) -> bool {
    let turn = turn.trim_start();
    OF_TOOLS.iter().any(|begin| turn.starts_with(begin))
}

/// Code blocks, and what an editor adds to a turn.
static NOT_OWN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
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
pub(super) fn sentences(text: &str) -> Vec<Sentence<'_>> {
    text.lines().flat_map(in_line).collect()
}

fn in_line(line: &str) -> Vec<Sentence<'_>> {
    let (mut found, mut from) = (Vec::new(), 0);
    let ends = line.match_indices(['.', '!', '?']).map(|(at, mark)| at + mark.len());
    let ends = ends.filter(|&end| line[end..].chars().next().is_none_or(char::is_whitespace));
    for end in ends.chain([line.len()]) {
        found.extend(sentence(&line[from..end]));
        from = end;
    }
    found
}

fn sentence(text: &str) -> Option<Sentence<'_>> {
    let is_question = text.trim_end().ends_with('?');
    let text = text.trim_start_matches([' ', '\t', '-', '*', '>', '"', '\'', '(', '…', '.']);
    (!text.trim().is_empty()).then_some(Sentence { text, is_question })
}

#[cfg(test)]
mod tests {
    use super::*;

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
