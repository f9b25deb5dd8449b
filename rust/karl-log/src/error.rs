//! What can go wrong while a log is read or a data set is written.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a log could not be read or a data set not written. One damaged record is never an error: it is a
/// [`Reason`](crate::rejects::Reason), counted.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused.
    Io {
        /// What was being done: `open`, `read`, `write`, ...
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// The input is not something that holds records.
    Layout {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The input holds nothing to convert, and the first that is wrong with it is a reward.
    Reward {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        problem: String,
    },
    /// The input is one JSON object that neither is a record nor holds an array of records.
    Document {
        /// The file.
        path: PathBuf,
        /// The keys of the object.
        keys: Vec<String>,
    },
    /// The input is one JSON object whose values are the records, each under its name.
    ByName {
        /// The file.
        path: PathBuf,
        /// The object, as a path of jq.
        holder: String,
    },
    /// A file that was to be converted, and is what a conversion writes.
    Converted {
        /// The file.
        path: PathBuf,
    },
    /// A file that nothing here reads.
    Unread {
        /// The file.
        path: PathBuf,
        /// Why.
        why: Unread,
    },
    /// A dotted field path that means nothing.
    Field {
        /// As it came.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A record is no longer what it was when the log was scanned.
    Changed {
        /// The file.
        path: PathBuf,
        /// Where the record began, in bytes of the decoded file.
        offset: u64,
    },
    /// A file is no longer what it was when it was opened, and did not only grow.
    Rewritten {
        /// The file.
        path: PathBuf,
    },
    /// A record that was to be written unread is no JSON, or more than one line: the rows have to be judged first.
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Where the record begins, in bytes of the decoded file.
        offset: u64,
    },
    /// The output exists, and nobody said to replace it.
    Exists {
        /// The output.
        path: PathBuf,
    },
    /// Something that is no output of ours is in the place of the output: it is never replaced.
    Foreign {
        /// The place.
        path: PathBuf,
        /// What is there.
        problem: String,
    },
    /// The place of the output is not what it was when the run began: what is there now stays.
    Taken {
        /// The place.
        path: PathBuf,
        /// What was done there.
        problem: String,
    },
    /// A path to write to that ends in no name, but in `..` or at the root.
    Target {
        /// The path.
        path: PathBuf,
    },
    /// The numerics refused an argument.
    Draw(karl_core::Error),
    /// The caller's own judgement of a row failed.
    Judge(String),
    /// The caller asked to stop.
    Interrupted,
}

impl Error {
    /// An [`Error::Io`] with its path.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_path_buf(), source }
    }
}

/// Why a document holds no records.
pub(crate) const DOCUMENT: &str =
    "it is one JSON object that neither is a record nor holds an array of records";

/// What is told of an object whose values are records.
pub(crate) fn by_name(holder: &str) -> String {
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

/// Why nothing here reads a file that may hold records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is packed by this.
    Packed(&'static str),
    /// Its text is in this encoding.
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

/// tempfile puts a path of its own behind the message of the system, and gives the number of the error nowhere else.
pub(crate) fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    let number = text.split_once("(os error ").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    number.map_or(error, io::Error::from_raw_os_error)
}
