//! Errors of reading a log and writing a data set.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why a log could not be read or a data set not written. One damaged record is never an error: it is
/// a counted [`RejectReason`](crate::rejects::RejectReason).
#[derive(Debug)]
pub enum Error {
    /// Error of the operating system.
    Io {
        /// Operation: `open`, `read`, `write`, ...
        doing: &'static str,
        /// File.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
    /// Input that cannot hold records.
    Layout {
        /// File.
        path: PathBuf,
        /// Problem.
        problem: String,
    },
    /// Input with nothing to convert, of which the first problem is a reward.
    Reward {
        /// File.
        path: PathBuf,
        /// Problem and its place.
        problem: String,
    },
    /// Input that is one JSON object, neither a record nor with an array of records.
    Document {
        /// File.
        path: PathBuf,
        /// Keys of the object.
        keys: Vec<String>,
    },
    /// Input that is one JSON object with the records as values.
    ByName {
        /// File.
        path: PathBuf,
        /// Object, as a path of jq.
        holder: String,
    },
    /// Input of a conversion that is already the output of one.
    Converted {
        /// File.
        path: PathBuf,
    },
    /// Unsupported file.
    Unread {
        /// File.
        path: PathBuf,
        /// Reason.
        why: Unread,
    },
    /// Invalid dotted field path.
    Field {
        /// Path as given.
        path: String,
        /// Problem.
        problem: &'static str,
    },
    /// Record that changed since the log was scanned.
    Changed {
        /// File.
        path: PathBuf,
        /// Offset of the record, in bytes of the decoded file.
        offset: u64,
    },
    /// File that changed since it was opened, other than by growing.
    Rewritten {
        /// File.
        path: PathBuf,
    },
    /// Record to be copied unread that is not valid JSON, or spans several lines: the rows have to be
    /// validated first.
    Unwritable {
        /// File.
        path: PathBuf,
        /// Offset of the record, in bytes of the decoded file.
        offset: u64,
    },
    /// Existing output, without the option to replace it.
    Exists {
        /// Output.
        path: PathBuf,
    },
    /// Place of the output taken by something that is not an output of this program: it is never replaced.
    Foreign {
        /// Place.
        path: PathBuf,
        /// Description of its contents.
        problem: String,
    },
    /// Place of the output that changed since the run began; its contents stay.
    Taken {
        /// Place.
        path: PathBuf,
        /// Description of the change.
        problem: String,
    },
    /// Output path that ends in no name, but in `..` or at the root.
    Target {
        /// Path.
        path: PathBuf,
    },
    /// Argument that the numerics reject.
    Draw(karl_core::Error),
    /// Failure of the caller's own validation of a row.
    Judge(String),
    /// Cancellation by the caller.
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

/// Return the message for an object with records as values.
pub fn by_name(holder: &str) -> String {
    let under = holder.strip_prefix(".[").and_then(|key| key.strip_suffix(']'));
    let place = under.map_or_else(String::new, |key| format!(" under {key}"));
    format!(
        "it is one JSON object that holds records by name{place}, wanted one record a line or an array of them"
    )
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            Self::Layout { path, problem }
            | Self::Reward { path, problem }
            | Self::Taken { path, problem } => {
                write!(f, "{}: {problem}", path.display())
            }
            Self::Document { path, .. } => write!(f, "{}: {DOCUMENT}", path.display()),
            Self::ByName { path, holder } => write!(f, "{}: {}", path.display(), by_name(holder)),
            Self::Unread { path, why } => write!(f, "{}: {why}", path.display()),
            Self::Converted { path } => write!(f, "{} holds trajectories already", path.display()),
            Self::Field { path, problem } => write!(f, "field path {path:?}: {problem}"),
            Self::Changed { path, offset } => {
                write!(f, "{}: the record at byte {offset} changed since it was scanned", path.display())
            }
            Self::Rewritten { path } => {
                write!(f, "{}: it changed while it was read, other than at its end", path.display())
            }
            Self::Unwritable { path, offset } => {
                write!(f, "{}: the record at byte {offset} cannot be written as it stands", path.display())
            }
            Self::Exists { path } => write!(f, "{}: it exists", path.display()),
            Self::Foreign { path, problem } => write!(f, "{}: it exists and {problem}", path.display()),
            Self::Target { path } => write!(f, "{}: the output needs a name of its own", path.display()),
            Self::Draw(error) => error.fmt(f),
            Self::Judge(problem) => write!(f, "a row could not be judged: {problem}"),
            Self::Interrupted => write!(f, "interrupted"),
        }
    }
}

impl From<karl_core::Error> for Error {
    fn from(error: karl_core::Error) -> Self {
        Self::Draw(error)
    }
}

/// Reason why a file that may hold records is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Compressed or archived in this format.
    Packed(&'static str),
    /// Text in this encoding.
    Encoded(&'static str),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packed("Parquet") => {
                write!(f, "it is a table of Parquet, whose name has to end in .parquet")
            }
            Self::Packed(packer) => {
                write!(f, "it is packed by {packer}, wanted gzip, zstd, or plain text")
            }
            Self::Encoded(encoding) => write!(f, "its text is {encoding}, wanted UTF-8"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Return the error without tempfile's path, which it appends to the system's message; it gives the error
/// number nowhere else.
pub fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    let number = text.split_once("(os error ").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    number.map_or(error, io::Error::from_raw_os_error)
}
