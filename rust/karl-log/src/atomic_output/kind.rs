//! Outputs that may be replaced.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::identity::Identity;
use crate::error::{Error, Result};

/// Kind of output that may be replaced on request.
#[derive(Debug)]
pub struct OutputKind {
    /// Names of all files in such a directory; `None` for a single file.
    pub names: Option<&'static [&'static str]>,
    /// Check that an output is of this kind; a directory has only regular files of these names by then.
    pub is_ours: fn(&Path) -> Result<bool>,
    /// Description of edits to an output since it was written, if any.
    pub edited: fn(&Path) -> Result<Option<String>>,
    /// Message for anything else.
    pub foreign: &'static str,
}

/// Parquet file.
pub const PARQUET: OutputKind = OutputKind {
    names: None,
    is_ours: is_parquet,
    edited: |_| Ok(None),
    foreign: "is not a file of Parquet",
};

fn is_parquet(path: &Path) -> Result<bool> {
    let io = |error| Error::io("read", path, error);
    let mut begin = Vec::new();
    File::open(path).map_err(io)?.take(4).read_to_end(&mut begin).map_err(io)?;
    Ok(begin == b"PAR1")
}

/// Return why something cannot be of a kind: a link, a file instead of a directory or the reverse, a
/// directory with other contents.
pub(super) fn foreign(kind: &OutputKind, print: &Identity) -> Option<String> {
    let Some(names) = kind.names else {
        return (!print.is_file()).then(|| kind.foreign.to_owned());
    };
    let Some(mut entries) = print.entries() else { return Some("is not a directory".to_owned()) };
    entries.find_map(|(name, is_file)| match (names.iter().any(|known| name == *known), is_file) {
        (true, true) => None,
        (true, false) => Some(format!("holds {}, which is not a file", name.to_string_lossy())),
        (false, _) => Some(format!("holds {}, which karl-fast did not write", name.to_string_lossy())),
    })
}
