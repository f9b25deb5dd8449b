//! Command lines of shell calls: simple commands, how they are joined, and what they write to files.

pub(crate) mod program;
mod writes;

use serde_json::Value;

pub(crate) use self::program::program;
use self::program::{shell_text, strip_starters};
pub(crate) use self::writes::{TreeChange, shell_edits, tree_change};

/// Keys of a command in the arguments of a shell tool.
const KEYS: [&str; 4] = ["command", "cmd", "script", "commands"];

/// Return the command text of a shell call; `None` if it is not a shell call. Codex has a list of words, mostly
/// `["bash", "-lc", "text"]`.
pub(crate) fn command(arguments: &Value) -> Option<String> {
    let command = KEYS.iter().find_map(|key| arguments.get(key))?;
    match command {
        // A path stands beside the commands of editors: `{"command": "view", "path": "a.py"}`.
        Value::String(text) if arguments.get("path").is_none() => Some(text.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
            let text = shell_text(&words).map(str::to_owned);
            Some(text.unwrap_or_else(|| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")))
        }
        _ => None,
    }
}

/// Return a word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Commands of a line, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandLine {
    pub(crate) steps: Vec<SimpleCommand>,
    /// True if groups, loops or background jobs make the exit status one of several commands.
    opaque: bool,
}

/// One simple command.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimpleCommand {
    pub(crate) words: Vec<String>,
    /// Files to which the output is redirected.
    pub(crate) writes: Vec<String>,
    /// Text of its here-document.
    pub(crate) here: Option<String>,
    /// Operator behind it: `&&`, `||`, `|`, `;`; empty at the end.
    next: &'static str,
}

/// Words that begin compound commands.
const COMPOUND: [&str; 9] = ["if", "for", "while", "until", "case", "function", "{", "select", "!"];

/// Commands that fail only for reasons of their own, which their output says: they leave the status to the
/// others.
const PLAIN: [&str; 14] = [
    "cd", "export", "source", ".", "set", "echo", "pushd", "popd", "mkdir", "unset", "true", ":", "pwd",
    "printf",
];

/// Depth to which command lines inside others are read.
const NESTED: usize = 3;

impl CommandLine {
    /// Parse a command line, with those that it gives to shells: `bash -c TEXT`.
    pub(crate) fn parse(text: &str) -> Self {
        Self::parse_within(text, NESTED)
    }

    fn parse_within(text: &str, depth: usize) -> Self {
        let mut line = Self::default();
        let mut step = SimpleCommand::default();
        for token in tokens(text) {
            match token {
                Token::Word(word) => step.words.push(word),
                Token::Write(path) => step.writes.push(path),
                Token::Here(text) => step.here = Some(text),
                Token::Operator("(" | ")" | "&") => {
                    line.opaque = true;
                    line.close(&mut step, ";");
                }
                Token::Operator(operator) => line.close(&mut step, operator),
            }
        }
        line.close(&mut step, "");
        if let Some(last) = line.steps.last_mut() {
            last.next = if last.next == ";" { "" } else { last.next };
        }
        if depth > 0 { line.unwrapped(depth - 1) } else { line }
    }

    /// Put the commands of inner command lines in their places.
    fn unwrapped(self, depth: usize) -> Self {
        let is_one = self.steps.len() == 1;
        let mut line = Self { steps: Vec::new(), opaque: self.opaque };
        for step in self.steps {
            let Some(mut inner) =
                shell_text(&strip_starters(&step.words)).map(|text| Self::parse_within(text, depth))
            else {
                line.steps.push(step);
                continue;
            };
            // Its status is one of several.
            line.opaque |= inner.opaque || !is_one && inner.steps.len() > 1;
            if let Some(last) = inner.steps.last_mut() {
                last.next = step.next;
                last.writes.extend(step.writes);
            }
            line.steps.extend(inner.steps);
        }
        line
    }

    /// End a command; `;` after nothing ends none.
    fn close(&mut self, step: &mut SimpleCommand, operator: &'static str) {
        if step.words.is_empty() && step.writes.is_empty() {
            return;
        }
        let mut step = std::mem::take(step);
        step.next = operator;
        self.opaque |= step.words.first().is_some_and(|word| COMPOUND.contains(&word.as_str()));
        self.steps.push(step);
    }

    /// Return whether the command at `at` succeeded, if the status of the whole line says so.
    pub(crate) fn passed(&self, at: usize, status: bool) -> Option<bool> {
        let (before, after) = (self.steps.get(..at)?, self.steps.get(at..)?);
        let set = |flag: &str| before.iter().any(|step| step.sets(flag));
        let (pipefail, errexit) = (set("pipefail"), set("-e"));
        let hides = |step: &SimpleCommand| match step.next {
            "|" => !pipefail,
            ";" => !errexit,
            "||" => true,
            _ => false,
        };
        // A command behind `||`, in the same list, may not have run.
        let list = before.iter().rposition(|step| step.next == ";").map_or(0, |end| end + 1);
        let skipped = before[list..].iter().any(|step| step.next == "||");
        if self.opaque || skipped || hides(&after[0]) || after.iter().any(|step| step.next == "||") {
            return None;
        }
        let chained = after.iter().all(|step| matches!(step.next, "&&" | "|" | "") || errexit);
        let piped = after.iter().take_while(|step| step.next == "|").count();
        let others = || before[list..].iter().chain(after.get(piped + 1..).unwrap_or_default());
        let is_known = chained && (status || others().all(SimpleCommand::is_plain));
        is_known.then_some(status)
    }

    /// Return the commands that the output of the one at `at` is piped through.
    pub(crate) fn pipe(&self, at: usize) -> &[SimpleCommand] {
        let piped = self.steps.iter().skip(at).take_while(|step| step.next == "|").count();
        self.steps.get(at + 1..).and_then(|after| after.get(..piped)).unwrap_or_default()
    }

    /// Return the exit status of the command at `at` that the next one prints: `pytest; echo "exit: $?"`.
    pub(crate) fn echoed_status(&self, at: usize, output: &str) -> Option<i64> {
        let [step, echo, ..] = self.steps.get(at..)? else { return None };
        let words =
            echo.words.split_first().filter(|(name, _)| *name == "echo").map(|(_, words)| words.join(" "))?;
        let (before, after) = words.split_once("$?").filter(|(_, after)| !after.contains('$'))?;
        if step.next != ";" || before.contains(['$', '`']) {
            return None;
        }
        let status = |line: &str| line.strip_prefix(before)?.strip_suffix(after)?.parse().ok();
        output.lines().rev().find_map(|line| status(line.trim_end()))
    }
}

impl SimpleCommand {
    fn is_plain(&self) -> bool {
        self.words.first().is_none_or(|word| PLAIN.contains(&word.as_str()) || word.contains('='))
    }

    /// Return whether it sets a flag of the shell: `set -e`, `set -euo pipefail`.
    fn sets(&self, flag: &str) -> bool {
        let is_flag = |word: &String| {
            let letter = flag.strip_prefix('-');
            word == flag || letter.is_some_and(|letter| word.starts_with('-') && word.contains(letter))
        };
        self.words.first().is_some_and(|word| word == "set") && self.words.iter().any(is_flag)
    }
}

/// Token of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Word without its quotes.
    Word(String),
    /// `&&`, `||`, `|`, `;`, `&`, a line break (as `;`), `(` or `)`.
    Operator(&'static str),
    /// Redirection of output to a file.
    Write(String),
    /// Text of a here-document.
    Here(String),
}

/// Operators, the longest first.
const OPERATORS: [&str; 9] = ["&&", "||", "|&", ";;", "|", ";", "&", "(", ")"];

/// Split a command line into tokens.
fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new(), pending: Vec::new() };
    while lexer.at < text.len() {
        lexer.next();
    }
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    /// Ends of here-documents whose texts follow after the line, and the tokens before them.
    pending: Vec<(String, usize)>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Take the next letter.
    fn take(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn next(&mut self) {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or(' ');
        match first {
            '\n' => {
                self.at += 1;
                self.tokens.push(Token::Operator(";"));
                self.here();
            }
            '#' => self.at += rest.find('\n').unwrap_or(rest.len()),
            _ if first.is_whitespace() => self.at += first.len_utf8(),
            _ if rest.starts_with("\\\n") => self.at += 2,
            _ if self.redirect() => {}
            _ => {
                let token = self.operator().unwrap_or_else(|| Token::Word(self.word()));
                self.tokens.push(token);
            }
        }
    }

    fn operator(&mut self) -> Option<Token> {
        let operator = OPERATORS.into_iter().find(|operator| self.rest().starts_with(operator))?;
        self.at += operator.len();
        Some(Token::Operator(match operator {
            "|&" => "|",
            ";;" => ";",
            other => other,
        }))
    }

    /// Read a redirection, if there is one: `2>&1` goes nowhere, `>f` writes a file, `<<E` begins a document.
    fn redirect(&mut self) -> bool {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let after = &self.rest()[digits..];
        let after = after.strip_prefix('&').filter(|rest| rest.starts_with('>')).unwrap_or(after);
        let Some(operator) = ["<<<", "<<-", "<<", "<", ">>", ">|", ">&", ">"]
            .into_iter()
            .find(|operator| after.starts_with(operator))
        else {
            return false;
        };
        self.at = self.text.len() - after.len() + operator.len();
        let blank = self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        self.at += blank;
        if self.rest().starts_with('(') {
            self.substitution(&mut String::new());
            return true;
        }
        let target = self.word();
        match operator {
            "<<" | "<<-" => self.pending.push((target, self.tokens.len())),
            ">" | ">>" | ">|" => self.tokens.push(Token::Write(target)),
            _ => {}
        }
        true
    }

    /// Read the here-documents of the line that has ended.
    fn here(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let texts: Vec<_> = pending.into_iter().map(|(end, at)| (at, self.document_text(&end))).collect();
        for (at, text) in texts.into_iter().rev() {
            self.tokens.insert(at, Token::Here(text));
        }
    }

    fn document_text(&mut self, end: &str) -> String {
        let mut text = String::new();
        while let Some(line) = self.rest().split_inclusive('\n').next() {
            self.at += line.len();
            if line.trim() == end {
                break;
            }
            text.push_str(line);
        }
        text
    }

    /// Read a word up to a space or an operator outside of quotes.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(first) = self.rest().chars().next() {
            match first {
                '\'' => self.quoted('\'', &mut word),
                '"' => self.quoted('"', &mut word),
                '`' => self.quoted('`', &mut word),
                '\\' => {
                    self.at += 1;
                    word.extend(self.take().filter(|next| *next != '\n'));
                }
                '$' if self.rest().starts_with("$(") => self.substitution(&mut word),
                '(' if !word.is_empty() => self.substitution(&mut word),
                _ if first.is_whitespace() || "|&;()<>".contains(first) => break,
                _ => {
                    word.push(first);
                    self.at += first.len_utf8();
                }
            }
        }
        word
    }

    /// Read a quoted text; in double quotes a substitution may have quotes of its own.
    fn quoted(&mut self, quote: char, word: &mut String) {
        self.at += 1;
        while let Some(first) = self.rest().chars().next() {
            match first {
                _ if first == quote => {
                    self.at += 1;
                    return;
                }
                '\\' if quote == '"' => {
                    self.at += 1;
                    let next = self.take();
                    word.extend(next.filter(|next| !"\"\\$`\n".contains(*next)).map(|_| '\\'));
                    word.extend(next);
                }
                '$' if quote == '"' && self.rest().starts_with("$(") => self.substitution(word),
                _ => {
                    word.push(first);
                    self.at += first.len_utf8();
                }
            }
        }
    }

    /// Read up to the bracket that closes a substitution, with quotes and here-documents inside.
    fn substitution(&mut self, word: &mut String) {
        let (start, mut depth) = (self.at, 0_usize);
        while let Some(first) = self.rest().chars().next() {
            match first {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                '\'' | '"' => {
                    self.quoted(first, &mut String::new());
                    continue;
                }
                '<' if self.rest().starts_with("<<") && self.document() => continue,
                _ => {}
            }
            self.at += first.len_utf8();
            if depth == 0 && first == ')' {
                break;
            }
        }
        word.push_str(&self.text[start..self.at]);
    }

    /// Skip a here-document inside a substitution: brackets and quotes in it are text.
    fn document(&mut self) -> bool {
        let rest = self.rest();
        let head = rest.trim_start_matches("<<").trim_start_matches('-');
        let end: String = head
            .chars()
            .filter(|letter| !"'\"".contains(*letter))
            .take_while(|letter| !letter.is_whitespace())
            .collect();
        let Some(close) = (!end.is_empty()).then(|| rest.lines().skip(1).position(|line| line.trim() == end))
        else {
            return false;
        };
        let lines = close.map_or(usize::MAX, |lines| lines.saturating_add(2));
        self.at += rest.split_inclusive('\n').take(lines).map(str::len).sum::<usize>();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{tokens, *};
    use serde_json::json;

    #[test]
    fn commands_of_every_form_by_hand() {
        for (arguments, wanted) in [
            (json!({"command": "pytest -q"}), Some("pytest -q")),
            (json!({"cmd": "pytest", "yield_time_ms": 1000}), Some("pytest")),
            (json!({"command": ["bash", "-lc", "cd a && pytest"]}), Some("cd a && pytest")),
            (json!({"command": ["/bin/zsh", "-l", "-c", "pytest"]}), Some("pytest")),
            (json!({"command": ["powershell.exe", "-NoProfile", "-Command", "npm test"]}), Some("npm test")),
            (json!({"command": ["cmd.exe", "/c", "npm test"]}), Some("npm test")),
            (json!({"command": ["pytest", "-k", "a and b", "it's"]}), Some("pytest -k 'a and b' 'it'\\''s'")),
            (json!({"command": "view", "path": "a.py"}), None),
            (json!({"command": ["a", 1]}), None),
        ] {
            assert_eq!(command(&arguments).as_deref(), wanted, "{arguments}");
        }
    }

    fn words(text: &str) -> Vec<Vec<String>> {
        CommandLine::parse(text).steps.into_iter().map(|step| step.words).collect()
    }

    #[test]
    fn commands_by_hand() {
        for (text, wanted) in [
            (
                "cd a && pytest -q 2>&1 | tail -5",
                vec![vec!["cd", "a"], vec!["pytest", "-q"], vec!["tail", "-5"]],
            ),
            ("A=1 b 'c d' \"e $(f \"g\") h\"", vec![vec!["A=1", "b", "c d", "e $(f \"g\") h"]]),
            ("a; b # c\nd \\\n e", vec![vec!["a"], vec!["b"], vec!["d", "e"]]),
            ("cat <<'EOF' > x.py && make\nf(a && b)\nEOF\n", vec![vec!["cat"], vec!["make"]]),
            (
                "git commit -m \"$(cat <<'EOF'\nit's (a\nEOF\n)\" && git push",
                vec![vec!["git", "commit", "-m", "$(cat <<'EOF'\nit's (a\nEOF\n)"], vec!["git", "push"]],
            ),
            ("", vec![]),
            ("'", vec![vec![""]]),
            ("a \\", vec![vec!["a", ""]]),
            ("x &> out &", vec![vec!["x"]]),
        ] {
            assert_eq!(words(text), wanted, "{text}");
        }
    }

    #[test]
    fn output_that_goes_to_files() {
        let line = CommandLine::parse("cat > a.py << EOF\nx = 1\nEOF\nls 2>/dev/null >> log; echo 2>&1");
        assert_eq!(line.steps[0].writes, ["a.py"]);
        assert_eq!(line.steps[0].here.as_deref(), Some("x = 1\n"));
        assert_eq!(line.steps[1].writes, ["/dev/null", "log"]);
        assert!(line.steps[2].writes.is_empty());
    }

    /// The statuses that bash gives such lines.
    #[test]
    fn the_status_of_a_line_counts_where_nothing_hides_it() {
        for (text, at, passed, failed) in [
            ("pytest", 0, Some(true), Some(false)),
            ("cd a && pytest", 1, Some(true), Some(false)),
            ("A=1; pytest", 1, Some(true), Some(false)),
            ("pytest && git commit", 0, Some(true), None),
            ("ruff check && pytest", 0, Some(true), None),
            ("ruff check && pytest", 1, Some(true), None),
            ("pytest; echo done", 0, None, None),
            ("pytest | tail", 0, None, None),
            ("set -o pipefail; pytest | tail", 1, Some(true), Some(false)),
            ("set -e; pytest; echo done", 1, Some(true), Some(false)),
            ("pytest || true", 0, None, None),
            ("a || pytest", 1, None, None),
            ("a || true; pytest", 2, Some(true), Some(false)),
            ("(pytest)", 0, None, None),
            ("pytest &", 0, None, None),
            ("for f in a; do pytest $f; done", 1, None, None),
            ("! pytest", 0, None, None),
            ("cat x | pytest", 1, Some(true), None),
        ] {
            let line = CommandLine::parse(text);
            assert_eq!((line.passed(at, true), line.passed(at, false)), (passed, failed), "{text}");
        }
    }

    #[test]
    fn pipes_by_hand() {
        let line = CommandLine::parse("a && pytest 2>&1 | grep x | tail -3; b");
        let names: Vec<&str> = line.pipe(1).iter().map(|step| step.words[0].as_str()).collect();
        assert_eq!(names, ["grep", "tail"]);
        assert!(line.pipe(0).is_empty() && line.pipe(4).is_empty());
    }

    #[test]
    fn command_lines_inside_others_by_hand() {
        for (text, wanted, passed) in [
            ("bash -lc 'cd a && pytest -q'", vec![vec!["cd", "a"], vec!["pytest", "-q"]], Some(true)),
            ("timeout 60 sh -c \"pytest\" 2>&1", vec![vec!["pytest"]], Some(true)),
            ("cd a && bash -c 'b; pytest'", vec![vec!["cd", "a"], vec!["b"], vec!["pytest"]], None),
            ("docker compose run --rm web sh -c 'x && pytest'", vec![vec!["x"], vec!["pytest"]], Some(true)),
            ("bash a.sh -c", vec![vec!["bash", "a.sh", "-c"]], Some(true)),
        ] {
            let line = CommandLine::parse(text);
            assert_eq!(words(text), wanted, "{text}");
            assert_eq!(line.passed(line.steps.len() - 1, true), passed, "{text}");
        }
    }

    #[test]
    fn a_status_that_the_line_prints_itself() {
        for (text, output, wanted) in [
            ("pytest; echo \"exit: $?\"", "..\nexit: 1\n", Some(1)),
            ("pytest > log 2>&1; echo $?; tail log", "0\n2 passed", Some(0)),
            ("pytest; echo EXIT=$?.", "EXIT=2.", Some(2)),
            ("pytest | tail; echo $?", "0", None),
            ("pytest && echo $?", "0", None),
            ("pytest; echo done", "done", None),
        ] {
            assert_eq!(CommandLine::parse(text).echoed_status(0, output), wanted, "{text}");
        }
    }

    #[test]
    fn every_text_has_an_end() {
        let parts = [
            "'", "\"", "`", "$(", ")", "(", "\\", "<<E", "\nE\n", "<", ">", "&", "|", "a", " ", "ü", "#", "2",
        ];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let text: String = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                parts[usize::try_from(state >> 33).unwrap() % parts.len()]
            })
            .take(12)
            .collect();
            tokens(&text);
        }
    }
}
