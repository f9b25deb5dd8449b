//! Queries over 64 bytes at once, implemented for every vector width.

/// Bytes per block.
pub(crate) const BLOCK: usize = 64;

pub(crate) type Block = [u8; BLOCK];

/// Structural bytes of a block, one bit per byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) quote: u64,
    pub(crate) backslash: u64,
    /// Brackets of either kind, inside strings too.
    pub(crate) open: u64,
    pub(crate) close: u64,
}

/// Vector width.
pub(crate) trait Lanes: Copy {
    fn bits(self, block: &Block) -> Bits;

    /// Return the positions of bytes that occur in `some`.
    fn any<const N: usize>(self, block: &Block, some: [u8; N]) -> u64;

    /// Return the positions of control characters.
    fn control(self, block: &Block) -> u64;

    /// Return the length of a string, from after its opening quote; `None` if its end is out of reach, or if
    /// an escape comes first.
    fn string(self, bytes: &[u8]) -> Option<usize>;

    /// Return the length of a number or word; `None` if its end is out of reach.
    fn scalar(self, bytes: &[u8]) -> Option<usize>;
}

/// Return the position of the first quote, if no backslash precedes it.
#[inline(always)]
pub(super) fn closing(quotes: u64, backslashes: u64) -> Option<usize> {
    let before = quotes.wrapping_sub(1) & !quotes;
    (quotes != 0 && backslashes & before == 0).then(|| quotes.trailing_zeros() as usize)
}

/// Return the position of the first bit.
#[inline(always)]
pub(super) fn first(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

/// Bytes that end a number or a word.
pub(crate) const ENDS: [u8; 7] = *b",}] \t\n\r";

/// Work that runs on any vector width. All of it has to be inlined.
pub(crate) trait SimdKernel {
    type Output;

    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// The only bit in which square and curly brackets differ; setting it turns no other byte into a bracket.
pub(super) const CURLY: u8 = 0x20;

/// Last control character.
pub(super) const CONTROL: u8 = 0x1f;
