//! Grammar of JSON: which token may follow which.

/// Nesting limit of `serde_json`; an open container is one bit of a word.
const DEEPEST: u32 = 127;

/// Token that may come next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expected {
    /// Value.
    #[default]
    Value,
    /// Value, or the end of an empty array.
    FirstValue,
    /// Key.
    Key,
    /// Key, or the end of an empty object.
    FirstKey,
    /// Colon after a key.
    Colon,
    /// End of a container, or the comma after a value in it; nothing at the top level.
    End,
}

/// State of the grammar. Every step returns `None` if the text is, or may be, invalid JSON.
#[derive(Debug, Default)]
pub(crate) struct Grammar {
    next: Expected,
    /// One bit per open container, the innermost lowest: 1 for an object.
    objects: u128,
    depth: u32,
}

impl Grammar {
    /// Return whether one value was read in full.
    pub(crate) fn is_whole(&self) -> bool {
        self.depth == 0 && self.next == Expected::End
    }

    /// Return the number of open containers.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Accept a string value, or a key that does not begin like those that `serde_json` reserves.
    #[inline(always)]
    pub(crate) fn string(&mut self, first: u8) -> Option<()> {
        if !matches!(self.next, Expected::Key | Expected::FirstKey) {
            return self.value();
        }
        self.next = Expected::Colon;
        (!matches!(first, b'$' | b'\\')).then_some(())
    }

    /// Accept a value that is not a container.
    #[inline(always)]
    pub(crate) fn value(&mut self) -> Option<()> {
        let wanted = matches!(self.next, Expected::Value | Expected::FirstValue);
        self.next = Expected::End;
        wanted.then_some(())
    }

    #[inline(always)]
    pub(crate) fn open(&mut self, object: bool) -> Option<()> {
        self.value()?;
        self.next = if object { Expected::FirstKey } else { Expected::FirstValue };
        self.objects = self.objects << 1 | u128::from(object);
        self.depth += 1;
        (self.depth <= DEEPEST).then_some(())
    }

    #[inline(always)]
    pub(crate) fn close(&mut self, object: bool) -> Option<()> {
        let empty = if object { Expected::FirstKey } else { Expected::FirstValue };
        let may = self.depth > 0
            && self.in_object() == object
            && (self.next == Expected::End || self.next == empty);
        self.next = Expected::End;
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
        may.then_some(())
    }

    #[inline(always)]
    pub(crate) fn comma(&mut self) -> Option<()> {
        let may = self.depth > 0 && self.next == Expected::End;
        self.next = if self.in_object() { Expected::Key } else { Expected::Value };
        may.then_some(())
    }

    #[inline(always)]
    pub(crate) fn colon(&mut self) -> Option<()> {
        let may = self.next == Expected::Colon;
        self.next = Expected::Value;
        may.then_some(())
    }

    const fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}
