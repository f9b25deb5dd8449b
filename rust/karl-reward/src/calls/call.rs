//! Calls of tools as numbers.

use super::bash_purpose::Words;

/// A tool, as far as the formula tells tools apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// It has no name, or an empty one.
    Unnamed,
    /// Bash.
    Bash,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Edit.
    Edit,
    /// `NotebookEdit`, which changes files, but not those that it is asked about.
    Notebook,
    /// Any other.
    Other,
}

impl ToolKind {
    /// Return the kind of a tool by its name.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"" => Self::Unnamed,
            b"Bash" => Self::Bash,
            b"Read" => Self::Read,
            b"Write" => Self::Write,
            b"Edit" => Self::Edit,
            b"NotebookEdit" => Self::Notebook,
            _ => Self::Other,
        }
    }

    /// Return whether the tool changes files.
    #[must_use]
    pub fn changes(self) -> bool {
        self.writes() || self == Self::Notebook
    }

    /// Return whether the tool is Write or Edit.
    pub(crate) fn writes(self) -> bool {
        (self == Self::Write) | (self == Self::Edit)
    }
}

/// A call of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Number of the tool, the same for all calls of it.
    pub tool: u32,
    /// Its kind.
    pub kind: ToolKind,
    /// True if it succeeded; None if unknown.
    pub success: Option<bool>,
    /// The purpose of its command; of Bash alone.
    pub words: Words,
    /// Number of the file given, the same for all calls with it. 0 for none.
    pub file: u32,
}

impl Call {
    /// Placeholder before the first call.
    pub(crate) const NONE: Self = Self {
        tool: 0,
        kind: ToolKind::Unnamed,
        success: None,
        words: Words { test: false, build: false },
        file: 0,
    };

    pub(crate) fn failed(&self) -> bool {
        self.success == Some(false)
    }

    pub(crate) fn failed_bash(&self) -> bool {
        self.failed() & (self.kind == ToolKind::Bash)
    }
}
