//! Errors of reading a log and writing a data set.

use std::io;
use std::path::{Path, PathBuf};

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why a log could not be read or a data set not written. One damaged record is never an error: it is
/// a counted [`RejectReason`](crate::rejects::RejectReason).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Error of the operating system.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// Operation: `open`, `read`, `write`, ...
        doing: &'static str,
        /// File.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
    /// Input that cannot hold records.
    #[error("{}: {problem}", .path.display())]
    Layout {
        /// File.
        path: PathBuf,
        /// Problem.
        problem: String,
    },
    /// Input with nothing to convert, of which the first problem is a reward.
    #[error("{}: {problem}", .path.display())]
    Reward {
        /// File.
        path: PathBuf,
        /// Problem and its place.
        problem: String,
    },
    /// Input that is one JSON object, neither a record nor with an array of records.
    #[error("{}: {DOCUMENT}", .path.display())]
    Document {
        /// File.
        path: PathBuf,
        /// Keys of the object.
        keys: Vec<String>,
    },
    /// Input of several JSON values, the first of which is an object with records as values.
    #[error("{}: {}", .path.display(), by_name(.holder))]
    ByName {
        /// File.
        path: PathBuf,
        /// Object, as a path of jq.
        holder: String,
    },
    /// Input of a conversion that is already the output of one.
    #[error("{} holds trajectories already", .path.display())]
    Converted {
        /// File.
        path: PathBuf,
    },
    /// Unsupported file.
    #[error("{}: {why}", .path.display())]
    Unread {
        /// File.
        path: PathBuf,
        /// Reason.
        why: Unread,
    },
    /// Invalid dotted field path.
    #[error("field path {path:?}: {problem}")]
    Field {
        /// Path as given.
        path: String,
        /// Problem.
        problem: &'static str,
    },
    /// Record that changed since the log was scanned.
    #[error("{}: the record at byte {offset} changed since it was scanned", .path.display())]
    Changed {
        /// File.
        path: PathBuf,
        /// Offset of the record, in bytes of the decoded file.
        offset: u64,
    },
    /// File that changed since it was opened, other than by growing.
    #[error("{}: it changed while it was read, other than at its end", .path.display())]
    Rewritten {
        /// File.
        path: PathBuf,
    },
    /// Record to be copied unread that is not valid JSON, or spans several lines: the rows have to be
    /// validated first.
    #[error("{}: the record at byte {offset} cannot be written as it stands", .path.display())]
    Unwritable {
        /// File.
        path: PathBuf,
        /// Offset of the record, in bytes of the decoded file.
        offset: u64,
    },
    /// Existing output, without the option to replace it.
    #[error("{}: it exists", .path.display())]
    Exists {
        /// Output.
        path: PathBuf,
    },
    /// Place of the output taken by something that is not an output of this program: it is never replaced.
    #[error("{}: it exists and {problem}", .path.display())]
    Foreign {
        /// Place.
        path: PathBuf,
        /// Description of its contents.
        problem: String,
    },
    /// Place of the output that changed since the run began; its contents stay.
    #[error("{}: {problem}", .path.display())]
    Taken {
        /// Place.
        path: PathBuf,
        /// Description of the change.
        problem: String,
    },
    /// Output path that ends in no name, but in `..` or at the root.
    #[error("{}: the output needs a name of its own", .path.display())]
    Target {
        /// Path.
        path: PathBuf,
    },
    /// Argument that the numerics reject.
    #[error("{0}")]
    Draw(karl_core::Error),
    /// Failure of the caller's own validation of a row.
    #[error("a row could not be judged: {0}")]
    Judge(String),
    /// Record that could not be brought from where it lies.
    #[error("a record could not be read again: {0}")]
    Fetch(Box<dyn std::error::Error + Send + Sync>),
    /// Cancellation by the caller.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Return an [`Error::Io`] with its path.
    #[must_use]
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_path_buf(), source }
    }
}

/// Reason why a document holds no records.
pub(crate) const DOCUMENT: &str =
    "it is one JSON object that neither is a record nor holds an array of records";

/// Return the message for an object with records as values, and something behind it.
pub fn by_name(holder: &str) -> String {
    let under = holder.strip_prefix(".[").and_then(|key| key.strip_suffix(']'));
    let place = under.map_or_else(String::new, |key| format!(" under {key}"));
    format!(
        "it has several JSON values, and the first holds records by name{place}, wanted one such object, one record a line, \
         or an array of them"
    )
}

impl From<karl_core::Error> for Error {
    fn from(error: karl_core::Error) -> Self {
        Self::Draw(error)
    }
}

/// Reason why a file that may hold records is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// Compressed or archived in this format.
    #[error("{}", packed_message(.0))]
    Packed(&'static str),
    /// Text in this encoding.
    #[error("its text is {0}, wanted UTF-8")]
    Encoded(&'static str),
}

fn packed_message(packer: &str) -> String {
    match packer {
        "Parquet" => "it is a table of Parquet, whose name has to end in .parquet".to_owned(),
        packer => format!("it is packed by {packer}, wanted gzip, zstd, or plain text"),
    }
}

/// Return the error without tempfile's path, which it appends to the system's message; it gives the error
/// number nowhere else.
pub fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    let number = text.split_once("(os error ").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    number.map_or(error, io::Error::from_raw_os_error)
}
