//! Settings of scanning.

/// Part of a record to compare when duplicates are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Training content, as it would be written; the record's bytes if the content is unknown.
    Content,
    /// Bytes of the record.
    Records,
}

impl Compare {
    /// Return the name used in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Records => "records",
        }
    }

    /// Return the variant of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Content, Self::Records].into_iter().find(|compare| compare.name() == name)
    }
}

/// Settings of scanning.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanSettings {
    /// Part of each record to hash, so that duplicates can be detected.
    pub compare: Option<Compare>,
    /// True if the caller named the domain: then a record with an unusable domain is rejected. Otherwise the
    /// domain is for reports alone, and such a record has none.
    pub domain_asked: bool,
    /// True to parse every record in full, and to count duplicate keys as damage.
    pub strict: bool,
}
