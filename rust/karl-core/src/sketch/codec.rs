//! Encoding of states: a header, numbers one after the other, and a hash.

use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::rng::Key;

/// The first four bytes of every state.
const MARK: [u8; 4] = *b"karl";

/// Version of the encoding.
const VERSION: u16 = 1;

/// Bytes of mark, kind and version, and of the hash at the end.
const HEADER: usize = 8;
const HASH: usize = 8;

/// Kind of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum SketchKind {
    Gumbel = 1,
    Uniform = 2,
    Priority = 3,
    VarOpt = 4,
    Moments = 5,
    LogSum = 6,
    Beta = 7,
}

impl SketchKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gumbel => "state of the largest Gumbel keys",
            Self::Uniform => "state of the smallest uniforms",
            Self::Priority => "state of the largest priorities",
            Self::VarOpt => "state of a variance-optimal sample",
            Self::Moments => "state of moments",
            Self::LogSum => "state of a log-sum-exp",
            Self::Beta => "state of a Beta posterior",
        }
    }
}

/// Bytes in the making.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(kind: SketchKind) -> Self {
        let mut bytes = MARK.to_vec();
        bytes.extend((kind as u16).to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        Self(bytes)
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(crate) fn wide(&mut self, number: u128) {
        self.0.extend(number.to_le_bytes());
    }

    pub(crate) fn float(&mut self, number: f64) {
        self.number(number.to_bits());
    }

    pub(crate) fn key(&mut self, key: Key) {
        key.words().into_iter().for_each(|word| self.number(word));
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.number(XxHash3_64::oneshot(&self.0));
        self.0
    }
}

/// Bytes that are being read.
pub(crate) struct Reader<'a> {
    what: &'static str,
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Check header and hash.
    pub(crate) fn open(kind: SketchKind, bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Self { what: kind.name(), left: bytes };
        reader.require(bytes.len() >= HEADER + HASH, "there are too few")?;
        let (whole, hash) = bytes.split_at(bytes.len() - HASH);
        let mut head = Writer::new(kind).0;
        reader.require(whole.starts_with(&head[..4]), "they do not begin as a state does")?;
        reader.require(whole.starts_with(&head[..6]), "they are of another kind")?;
        reader.require(whole.starts_with(&head), "they are of another version")?;
        head.clear();
        head.extend(XxHash3_64::oneshot(whole).to_le_bytes());
        reader.require(hash == head, "their hash is not what they say")?;
        reader.left = &whole[HEADER..];
        Ok(reader)
    }

    /// Reject the bytes where something is not as it has to be.
    pub(crate) fn require(&self, fine: bool, problem: &'static str) -> Result<()> {
        if fine { Ok(()) } else { Err(Error::Bytes { what: self.what, problem }) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((array, left)) = self.left.split_first_chunk() else {
            return Err(Error::Bytes { what: self.what, problem: "they end too soon" });
        };
        self.left = left;
        Ok(*array)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn wide(&mut self) -> Result<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn float(&mut self) -> Result<f64> {
        self.number().map(f64::from_bits)
    }

    pub(crate) fn key(&mut self) -> Result<Key> {
        Ok(Key::from_words([self.number()?, self.number()?, self.number()?]))
    }

    /// Return a number that memory could count.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let count = self.number()?;
        usize::try_from(count).map_err(|_| Error::Bytes { what: self.what, problem: "a count is too large" })
    }

    pub(crate) fn end(&self) -> Result<()> {
        self.require(self.left.is_empty(), "there are too many")
    }
}
