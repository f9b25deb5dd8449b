//! Number that a format takes from a file beside the log.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::format::Sidecar;
use crate::input::source::Source;
use crate::json::reference_parser;

/// Maximum size of such a file in bytes.
const LONGEST: u64 = 1 << 20;

/// Result of the search for such a number.
#[derive(Clone, Debug)]
pub struct SidecarNumber {
    /// Path of the file, whether it exists or not.
    pub path: PathBuf,
    /// Key of the number.
    pub key: &'static str,
    /// Number, or the reason why there is none.
    pub number: Result<u64, String>,
}

impl SidecarNumber {
    /// Look beside a log. Standard input has no such place.
    pub(super) fn look(source: &Source, sidecar: Sidecar) -> Self {
        let path = Path::new(&source.name).with_file_name(sidecar.file);
        let number = if source.name == "-" {
            Err("standard input has no file beside it".to_owned())
        } else {
            read(&path).and_then(|text| number(&text, sidecar.number))
        };
        Self { path, key: sidecar.number, number }
    }
}

/// Return the bytes of a regular file.
///
/// # Errors
/// A sentence that says why it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe would block.
    if !path.is_file() {
        return Err("there is no such file".to_owned());
    }
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text));
    match read {
        Err(error) => Err(error.to_string()),
        Ok(_) if text.len() as u64 > LONGEST => Err(format!("it is longer than {LONGEST} bytes")),
        Ok(_) => Ok(text),
    }
}

fn number(text: &[u8], key: &str) -> Result<u64, String> {
    let whole = reference_parser::parse(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let value = whole.get(key).ok_or_else(|| format!("it has no {key}"))?;
    let number = value.as_u64().filter(|&number| number > 0);
    number.ok_or_else(|| format!("{key} is not a whole number from 1 on"))
}
