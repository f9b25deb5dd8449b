//! Words and operators of a command line.
//!
//! Quotes, escapes, substitutions and here-documents are read as far as they decide where a word, a command
//! or a redirection ends; nothing is expanded.

/// Token of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
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
pub(super) fn tokens(text: &str) -> Vec<Token> {
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
    use super::tokens;

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
