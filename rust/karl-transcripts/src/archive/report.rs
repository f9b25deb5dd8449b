//! Account of a collection.

/// Account of a collection: `files` = `grown` + `unchanged` + the failed ones.
#[derive(Debug, Default)]
pub struct Collected {
    /// Files looked at.
    pub files: u64,
    /// Files of which something was new.
    pub grown: u64,
    /// Files of which nothing was new.
    pub unchanged: u64,
    /// Files read again from their start, because they were rewritten, moved or packed.
    pub reread: u64,
    /// Lines added.
    pub lines: u64,
    /// Lines of files read again that the archive has already.
    pub duplicates: u64,
    /// Bytes added, unpacked.
    pub bytes: u64,
    /// Bytes added, packed.
    pub packed_bytes: u64,
    /// Files that could not be read, each with the reason.
    pub failed: Vec<(String, String)>,
}
