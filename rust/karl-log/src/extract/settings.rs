//! How records are judged while they are scanned.

/// What of records is compared, to tell those that are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// What they teach, as they would be written; their bytes where they teach nothing that is known.
    Content,
    /// Their bytes.
    Records,
}

impl Compare {
    /// The name by which it is asked for.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Records => "records",
        }
    }

    /// That of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Content, Self::Records].into_iter().find(|compare| compare.name() == name)
    }
}

/// How to judge records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// What of each record to hash, so that equal ones can be told.
    pub compare: Option<Compare>,
    /// Whether the caller asked for the domain by name: then a record whose domain is no name is no row. Else the domain is
    /// for reports alone, and such a record has none.
    pub domain_asked: bool,
    /// Whether to parse every record in full, and to count duplicate keys as damage.
    pub strict: bool,
}
