//! The keys of records in the order in which they come, record after record.
//!
//! A habit is the text from the end of one value to the start of the next, `, "group": `, with the child that its key
//! was found to be. A text that begins so means the same again; where none fits, the key is read and becomes one.

use wide::u8x16;

/// The longest text that is kept.
const LONGEST: usize = 32;

/// How many are kept at most.
const MOST: usize = 64;

/// How far the order may jump: over keys that not every record has.
const NEAR: usize = 8;

/// What came after what, and what of it comes next.
#[derive(Clone, Debug, Default)]
pub(super) struct Habits {
    all: Vec<Habit>,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Habit {
    text: [u8x16; 2],
    /// All ones in the bytes of the text.
    mask: [u8x16; 2],
    length: usize,
    /// Which object it stands in, and whether it stands first there.
    place: usize,
    child: Option<usize>,
}

impl Habits {
    /// Begins a record.
    pub(super) fn restart(&mut self) {
        self.next = 0;
    }

    /// The length of the text that comes next, and the child that it leads to; none where something else comes.
    #[inline]
    pub(super) fn follow(&mut self, bytes: &[u8], place: usize) -> Option<(usize, Option<usize>)> {
        let habit = self.all.get(self.next).filter(|habit| habit.place == place && habit.fits(bytes))?;
        self.next += 1;
        Some((habit.length, habit.child))
    }

    /// Keeps a text that was read: the order goes on behind it.
    pub(super) fn learn(&mut self, text: &[u8], place: usize, child: Option<usize>) {
        let near = self.all.iter().skip(self.next).take(NEAR);
        let known = near.enumerate().find(|(_, habit)| habit.is(text, place)).map(|(at, _)| self.next + at);
        if known.is_none() && (text.len() > LONGEST || self.all.len() == MOST) {
            return;
        }
        let at = known.unwrap_or(self.next);
        if known.is_none() {
            self.all.insert(at, Habit::new(text, place, child));
        }
        self.next = at + 1;
    }
}

impl Habit {
    fn new(text: &[u8], place: usize, child: Option<usize>) -> Self {
        let halves = |byte: &dyn Fn(usize) -> u8| {
            [0, 16].map(|start| u8x16::new(std::array::from_fn(|at| byte(start + at))))
        };
        Self {
            text: halves(&|at| text.get(at).copied().unwrap_or(0)),
            mask: halves(&|at| if at < text.len() { u8::MAX } else { 0 }),
            length: text.len(),
            place,
            child,
        }
    }

    /// Whether bytes begin with the text.
    #[inline]
    fn fits(&self, bytes: &[u8]) -> bool {
        let Some(bytes) = bytes.first_chunk::<LONGEST>() else { return self.fits_end(bytes) };
        let [low, high] = [0, 16].map(|start| u8x16::new(std::array::from_fn(|at| bytes[start + at])));
        let other = ((low ^ self.text[0]) & self.mask[0]) | ((high ^ self.text[1]) & self.mask[1]);
        other == u8x16::ZERO
    }

    /// The same for fewer bytes than the longest text has.
    fn fits_end(&self, bytes: &[u8]) -> bool {
        let text = self.text.map(u8x16::to_array);
        bytes.starts_with(&text.as_flattened()[..self.length])
    }

    fn is(&self, text: &[u8], place: usize) -> bool {
        self.place == place && self.length == text.len() && self.fits_end(text)
    }
}
