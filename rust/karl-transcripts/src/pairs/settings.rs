//! Settings of a search for pairs.

use karl_redact::Protection;

use crate::convert::TranscriptKind;

/// Settings of a search for pairs.
#[derive(Clone, Debug)]
pub struct PairsSettings {
    /// Kind of all files, if it is not to be detected.
    pub kind: Option<TranscriptKind>,
    /// Shape of the rows.
    pub shape: PairShape,
    /// What is replaced in the rows; secrets are counted too.
    pub protection: Protection,
    /// Maximum length of a line or document in bytes.
    pub max_line_bytes: usize,
    /// Number of threads; at least one is used.
    pub threads: usize,
}

/// Shape of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairShape {
    /// Lists of messages, as TRL reads them.
    Chat,
    /// Texts, as mlx-lm-lora reads them for DPO: one prompt and one answer.
    Text,
}

impl PairShape {
    /// Every shape.
    pub const ALL: [Self; 2] = [Self::Chat, Self::Text];

    /// Return the name used in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Text => "text",
        }
    }

    /// Return the shape of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }
}
