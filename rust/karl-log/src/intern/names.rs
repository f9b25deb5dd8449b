//! Distinct names by number.

use super::spellings;

/// Number for a record without a name.
pub const NONE: u32 = u32::MAX;

/// Distinct names by number: one text with the end of each, in a fraction of the memory of as many strings.
#[derive(Clone, Debug, Default)]
pub struct Names {
    text: String,
    ends: Vec<usize>,
    /// Position of the name of each number; empty if positions and numbers are equal.
    places: Vec<u32>,
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Names {}

impl Names {
    /// Return the number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.places.is_empty() { self.ends.len() } else { self.places.len() }
    }

    /// Return whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the name of a number.
    #[must_use]
    pub fn get(&self, code: u32) -> Option<&str> {
        let place = if self.places.is_empty() { code } else { *self.places.get(code as usize)? } as usize;
        let start = if place == 0 { 0 } else { *self.ends.get(place - 1)? };
        self.text.get(start..*self.ends.get(place)?)
    }

    /// Iterate over all names in the order of their numbers.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        (0..self.len())
            .map(|code| u32::try_from(code).ok().and_then(|code| self.get(code)).unwrap_or_default())
    }

    /// Return the numeric values that names spell in several ways; `None` if there are none.
    #[must_use]
    pub fn mixed(&self) -> Option<spellings::MixedSpellings> {
        spellings::mixed(self.iter())
    }

    /// Select and renumber names in the given order. No text is moved, because each would miss the cache.
    /// Allowed once, and after the last name was added: numbers and positions then differ.
    pub(crate) fn numbered(self, order: Vec<u32>) -> Self {
        debug_assert!(self.places.is_empty(), "names are numbered anew once");
        if order.is_empty() { Self::default() } else { Self { places: order, ..self } }
    }

    pub(super) fn append(&mut self, other: &Self) {
        debug_assert!(
            self.places.is_empty() && other.places.is_empty(),
            "names are added before they are numbered anew"
        );
        let start = self.text.len();
        self.text.push_str(&other.text);
        self.ends.extend(other.ends.iter().map(|end| start + end));
    }

    /// Add a name; return its number.
    pub(crate) fn push(&mut self, name: &str) -> u32 {
        debug_assert!(self.places.is_empty(), "names are added before they are numbered anew");
        self.text.push_str(name);
        self.ends.push(self.text.len());
        u32::try_from(self.ends.len() - 1).unwrap_or(NONE)
    }
}

/// Batch of names in UTF-8, not distinct.
#[derive(Debug, Default)]
pub(crate) struct NameBatch {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl NameBatch {
    pub(crate) fn push(&mut self, name: &[u8]) {
        self.text.extend_from_slice(name);
        self.ends.push(self.text.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().filter_map(move |&end| self.text.get(std::mem::replace(&mut start, end)..end))
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}
