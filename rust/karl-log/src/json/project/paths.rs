//! Paths to extract from records.

use super::Path;

/// Paths to extract, as a tree of keys.
#[derive(Clone, Debug, Default)]
pub struct PathTree {
    pub(super) root: PathNode,
    slots: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PathNode {
    /// Index of the node in the tree.
    pub(super) number: usize,
    pub(super) slots: Vec<usize>,
    /// Slots at and below this node: a duplicate key replaces them all.
    pub(super) below: Vec<usize>,
    pub(super) children: Vec<(String, PathNode)>,
    /// One bit for the mark of each child: most keys are not children, and this rejects most of them.
    marks: u64,
}

impl PathTree {
    /// Create a slot for each path, in order.
    #[must_use]
    pub fn new(paths: &[Path]) -> Self {
        let mut root = PathNode::default();
        for (slot, path) in paths.iter().enumerate() {
            root.insert(path.segments(), slot);
        }
        root.count(0);
        Self { root, slots: paths.len() }
    }

    /// Return the number of slots that [`scan`](fn@super::scan) fills.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }
}

impl PathNode {
    fn insert(&mut self, segments: &[String], slot: usize) {
        self.below.push(slot);
        let Some((first, rest)) = segments.split_first() else {
            self.slots.push(slot);
            return;
        };
        let at = self.children.iter().position(|(key, _)| key == first).unwrap_or_else(|| {
            self.children.push((first.clone(), Self::default()));
            self.marks |= mark(first.as_bytes());
            self.children.len() - 1
        });
        self.children[at].1.insert(rest, slot);
    }

    /// Number this node and its descendants; return the next free number.
    fn count(&mut self, number: usize) -> usize {
        self.number = number;
        self.children.iter_mut().fold(number + 1, |next, (_, child)| child.count(next))
    }

    /// Return the index of the child with that key; usually [`NONE`].
    pub(super) fn child(&self, key: &[u8]) -> usize {
        if self.marks & mark(key) == 0 {
            return NONE;
        }
        self.children.iter().position(|(name, _)| name.as_bytes() == key).unwrap_or(NONE)
    }
}

/// Index in place of a missing child.
pub(super) const NONE: usize = usize::MAX;

/// Return one of 64 bits, selected by a key's length and first byte.
fn mark(key: &[u8]) -> u64 {
    1 << ((key.len() + 8 * usize::from(key.first().copied().unwrap_or(0))) % 64)
}
