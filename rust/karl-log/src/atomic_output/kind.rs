//! Outputs that may be replaced.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::identity::Identity;
use crate::error::{Error, Result};

/// What may be replaced on request.
#[derive(Debug)]
pub struct OutputKind {
    /// The names of all files that such a directory holds; `None` for a single file.
    pub(crate) names: Option<&'static [&'static str]>,
    /// Whether what is there is of this kind; a directory holds nothing but regular files of these names by then.
    pub(crate) is_ours: fn(&Path) -> Result<bool>,
    /// What somebody else did to what is ours since it was written.
    pub(crate) edited: fn(&Path) -> Result<Option<String>>,
    /// What is said of anything else.
    pub(crate) foreign: &'static str,
}

/// A file of Parquet.
pub const PARQUET: OutputKind =
    OutputKind { names: None, is_ours: is_parquet, edited: |_| Ok(None), foreign: "is no file of Parquet" };

fn is_parquet(path: &Path) -> Result<bool> {
    let io = |error| Error::io("read", path, error);
    let mut begin = Vec::new();
    File::open(path).map_err(io)?.take(4).read_to_end(&mut begin).map_err(io)?;
    Ok(begin == b"PAR1")
}

/// Why something cannot be of a kind: a link, a file for a directory or the other way round, a directory with something
/// else in it.
pub(super) fn foreign(kind: &OutputKind, print: &Identity) -> Option<String> {
    let Some(names) = kind.names else {
        return (!print.is_file()).then(|| kind.foreign.to_owned());
    };
    let Some(mut entries) = print.entries() else { return Some("is no directory".to_owned()) };
    entries.find_map(|(name, is_file)| match (names.iter().any(|known| name == *known), is_file) {
        (true, true) => None,
        (true, false) => Some(format!("holds {}, which is no file", name.to_string_lossy())),
        (false, _) => Some(format!("holds {}, which karl-fast did not write", name.to_string_lossy())),
    })
}
