//! Questions to 64 bytes at once, which every kind of vectors answers.

/// How many bytes are looked at at once.
pub(crate) const BLOCK: usize = 64;

pub(crate) type Block = [u8; BLOCK];

/// The bytes of a block that matter to its structure, one bit a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) quote: u64,
    pub(crate) backslash: u64,
    /// Brackets of either kind, inside strings too.
    pub(crate) open: u64,
    pub(crate) close: u64,
}

/// A kind of vectors.
pub(crate) trait Lanes: Copy {
    fn bits(self, block: &Block) -> Bits;

    /// The bytes that are one of some.
    fn any<const N: usize>(self, block: &Block, some: [u8; N]) -> u64;

    /// The control characters.
    fn control(self, block: &Block) -> u64;

    /// The length of a string, from behind its opening quote: none where its end is out of reach, or an escape stands
    /// before it.
    fn string(self, bytes: &[u8]) -> Option<usize>;

    /// The length of a number or a word; none where its end is out of reach.
    fn scalar(self, bytes: &[u8]) -> Option<usize>;
}

/// Where the first quote is, if no backslash stands before it.
#[inline(always)]
pub(super) fn closing(quotes: u64, backslashes: u64) -> Option<usize> {
    let before = quotes.wrapping_sub(1) & !quotes;
    (quotes != 0 && backslashes & before == 0).then(|| quotes.trailing_zeros() as usize)
}

/// Where the first bit is.
#[inline(always)]
pub(super) fn first(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

/// What stands after a number or a word.
pub(crate) const ENDS: [u8; 7] = *b",}] \t\n\r";

/// What can be done with any kind of vectors. All of it has to be inlined.
pub(crate) trait Kernel {
    type Output;

    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// Square brackets differ from curly ones in this bit alone, and no other byte becomes one by it.
pub(super) const CURLY: u8 = 0x20;

/// The last control character.
pub(super) const CONTROL: u8 = 0x1f;
