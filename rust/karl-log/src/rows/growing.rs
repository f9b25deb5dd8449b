//! A vector that grows without being moved.
//!
//! A common vector is copied whenever it is full, and every page of the copy is new to the process: over millions of rows
//! that costs more than reading them.

/// Values in pieces: a small one, then as many large ones as it takes. Most allocators give large ones back to the system as
/// soon as they are dropped, where small ones stay with the process.
#[derive(Clone, Debug)]
pub(crate) struct Growing<T> {
    pieces: Vec<Vec<T>>,
    len: usize,
}

const SMALL_BYTES: usize = 1 << 16;
const LARGE_BYTES: usize = 1 << 20;

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), len: 0 }
    }
}

impl<T: Copy> Growing<T> {
    /// How many values the first piece has, and each later one.
    const SMALL: usize = SMALL_BYTES / size_of::<T>();
    const LARGE: usize = LARGE_BYTES / size_of::<T>();

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        match self.pieces.get_mut(Self::place(self.len).0) {
            Some(piece) => piece.push(value),
            None => self.begin(value),
        }
        self.len += 1;
    }

    #[cold]
    fn begin(&mut self, value: T) {
        let mut piece = Vec::with_capacity(if self.is_empty() { Self::SMALL } else { Self::LARGE });
        piece.push(value);
        self.pieces.push(piece);
    }

    /// The value at a place, if there are so many.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<T> {
        let (piece, at) = Self::place(at);
        self.pieces.get(piece)?.get(at).copied()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let (piece, at) = Self::place(at);
        self.pieces.get_mut(piece)?.get_mut(at)
    }

    /// The piece, and the place in it.
    #[inline]
    fn place(at: usize) -> (usize, usize) {
        match at.checked_sub(Self::SMALL) {
            None => (0, at),
            Some(at) => (at / Self::LARGE + 1, at % Self::LARGE),
        }
    }

    /// All values in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        self.pieces.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_where_it_was_put_and_no_piece_is_moved() {
        let mut growing = Growing::default();
        assert!(growing.is_empty() && growing.get(0).is_none());
        let mut first: Vec<*const usize> = Vec::new();
        let count = (2 * LARGE_BYTES + LARGE_BYTES / 2) / size_of::<usize>();
        for at in 0..count {
            growing.push(at);
            assert_eq!((growing.get(at), growing.get(at + 1)), (Some(at), None));
            first.extend(growing.pieces.get(first.len()).map(Vec::as_ptr));
        }
        assert!(growing.iter().eq(0..count) && growing.len() == count);
        assert!(growing.pieces.iter().map(Vec::as_ptr).eq(first) && growing.pieces.len() == 4);
        for at in [0, SMALL_BYTES / size_of::<usize>(), count - 1] {
            *growing.get_mut(at).unwrap() += 7;
            assert_eq!(growing.get(at), Some(at + 7));
        }
        assert!(growing.get_mut(count).is_none());
        // A copy has no room to spare, and begins no piece before its time.
        let mut copy = growing.clone();
        (0..count).for_each(|at| copy.push(at));
        assert!(copy.iter().skip(count).eq(0..count) && copy.get(2 * count - 1) == Some(count - 1));
    }
}
