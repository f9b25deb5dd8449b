//! What may follow what in a JSON text.

/// How deep `serde_json` reads; an open container is one bit of a word.
const DEEPEST: u32 = 127;

/// What may come next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expected {
    /// A value.
    #[default]
    Value,
    /// A value, or the end of an array without any.
    FirstValue,
    /// A key.
    Key,
    /// A key, or the end of an object without any.
    FirstKey,
    /// The colon behind a key.
    Colon,
    /// The end of a container, or the comma behind a value in it; outside of all, nothing.
    End,
}

/// Where in a text its reader is. Every step is none where the text is no JSON, or may be none.
#[derive(Debug, Default)]
pub(crate) struct Grammar {
    next: Expected,
    /// One bit an open container, the innermost the lowest: 1 for an object.
    objects: u128,
    depth: u32,
}

impl Grammar {
    /// Whether one value was read, and all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.depth == 0 && self.next == Expected::End
    }

    /// How many containers are open.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// A value, or a key, which is not to begin as those do that `serde_json` reserves.
    #[inline(always)]
    pub(crate) fn string(&mut self, first: u8) -> Option<()> {
        if !matches!(self.next, Expected::Key | Expected::FirstKey) {
            return self.value();
        }
        self.next = Expected::Colon;
        (!matches!(first, b'$' | b'\\')).then_some(())
    }

    /// A value that is no container.
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
