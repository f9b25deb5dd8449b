//! Context of strings in a JSON text: their names, and the words of a command before them.

/// String of a JSON text.
#[derive(Clone, Copy, Default)]
pub(super) struct Literal<'a> {
    /// Start of its content.
    pub(super) from: usize,
    pub(super) raw: &'a str,
}

/// Context read before a string.
#[derive(Default)]
pub(super) struct StringPlace<'a> {
    key: Literal<'a>,
    label: Literal<'a>,
    /// End of the previous string.
    end: usize,
    /// Name of the array that contains the string.
    list: Option<&'a str>,
    /// First and last string of that array so far.
    first: &'a str,
    last: &'a str,
}

impl<'a> StringPlace<'a> {
    /// Advance to a string: into an array, or out of one.
    pub(super) fn enter(&mut self, text: &'a str, literal: &Literal<'a>) {
        let gap = &text[self.end..literal.from - 1];
        match gap.bytes().rev().find(|byte| b"[]{}".contains(byte)) {
            Some(b'[') => {
                self.list = Some(if gap.starts_with("\":") { self.key.raw } else { "" });
                (self.first, self.last) = ("", "");
            }
            Some(_) => self.list = None,
            None => {}
        }
    }

    /// Pass a key of an object.
    pub(super) fn pass_key(&mut self, key: Literal<'a>) {
        self.end = key.from + key.raw.len();
        self.list = None;
        self.key = key;
    }

    /// Pass a string that is not a key.
    pub(super) fn pass(&mut self, literal: Literal<'a>) {
        self.end = literal.from + literal.raw.len() + 1;
        if matches!(self.key.raw, "name" | "Name" | "key" | "Key") {
            self.label = literal;
        }
        if self.first.is_empty() {
            self.first = literal.raw;
        }
        self.last = literal.raw;
    }

    /// Return the name of a string: its key or that of its array, or in `{"name": ..., "value": ...}` the
    /// name beside it.
    pub(super) fn name(&self, text: &str, literal: &Literal<'a>) -> &'a str {
        if let Some(name) = self.list {
            return name;
        }
        let behind = self.key.from + self.key.raw.len() + 1;
        let own = text.get(behind..literal.from).is_some_and(|gap| {
            gap.len() < 64 && gap.trim_matches([':', '"', ' ', '\n', '\r', '\t']).is_empty()
        });
        let label = || !text[self.label.from..literal.from].contains(['{', '}']);
        match self.key.raw {
            _ if !own => "",
            "value" | "Value" if label() => self.label.raw,
            name => name,
        }
    }

    /// Return the words of a command before a string in an array that are needed to interpret it.
    pub(super) fn words(&self, literal: &Literal<'a>) -> String {
        let option = |word: &str| word.starts_with('-') && word.len() < 64;
        if self.list.is_none() || self.last.is_empty() || !option(self.last) && !option(literal.raw) {
            return String::new();
        }
        let short = |word: &str| word.len() < 64;
        match self.first.len() {
            _ if !short(self.last) => String::new(),
            length if length == self.last.len() || !short(self.first) => format!(" {} ", self.last),
            _ => format!("{} {} ", self.first, self.last),
        }
    }
}
