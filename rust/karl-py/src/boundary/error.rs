//! Errors of the crates to exceptions of `karl_fast.errors`: one exhaustive match each, so that a new variant does
//! not compile until it has a Python face.

use std::path::Path;

use karl_log::Error;
use karl_log::error::Unread;
use karl_transcripts::convert::TranscriptKind;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(karl_fast.errors, AlreadyConvertedError);
import_exception!(karl_fast.errors, ArgumentError);
import_exception!(karl_fast.errors, BadRewardError);
import_exception!(karl_fast.errors, ByNameError);
import_exception!(karl_fast.errors, DTypeError);
import_exception!(karl_fast.errors, EncodingError);
import_exception!(karl_fast.errors, FileError);
import_exception!(karl_fast.errors, LayoutError);
import_exception!(karl_fast.errors, LogChangedError);
import_exception!(karl_fast.errors, PackedError);
import_exception!(karl_fast.errors, LogError);
import_exception!(karl_fast.errors, OutputExistsError);
import_exception!(karl_fast.errors, OutputForeignError);
import_exception!(karl_fast.errors, OutputTakenError);
import_exception!(karl_fast.errors, TranscriptError);
import_exception!(karl_fast.errors, UsageError);

/// Convert an error to its Python exception.
pub(crate) fn to_python(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Io { source, path, .. } => {
            FileError::new_err((message, source.raw_os_error(), path.display().to_string()))
        }
        Error::Converted { .. } => AlreadyConvertedError::new_err(message),
        Error::Document { path, keys } => document(&path, &keys, message),
        Error::ByName { path, holder } => ByNameError::new_err((message, path.display().to_string(), holder)),
        Error::Layout { .. } => LogError::new_err(message),
        // What a function of Python raised is raised as it is.
        Error::Fetch(cause) => match cause.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(_) => LogError::new_err(message),
        },
        Error::Reward { .. } => BadRewardError::new_err(message),
        Error::Unread { why: Unread::Packed(packer), .. } => PackedError::new_err((message, packer)),
        Error::Unread { why: Unread::Encoded(encoding), .. } => EncodingError::new_err((message, encoding)),
        // `Draft.write` answers the second itself.
        Error::Changed { .. } | Error::Unwritable { .. } | Error::Rewritten { .. } => {
            LogChangedError::new_err(message)
        }
        Error::Field { .. } | Error::Target { .. } => UsageError::new_err(message),
        Error::Exists { .. } => OutputExistsError::new_err(message),
        Error::Foreign { .. } => OutputForeignError::new_err(message),
        Error::Taken { .. } => OutputTakenError::new_err(message),
        Error::Draw(error) => draw(&error, message),
        Error::Judge(problem) => UsageError::new_err(problem),
        Error::Interrupted => PyKeyboardInterrupt::new_err(message),
    }
}

fn document(path: &Path, keys: &[String], message: String) -> PyErr {
    let path = path.display();
    match TranscriptKind::by_keys(keys, true) {
        Ok(None) => LogError::new_err(message),
        Ok(Some(kind)) => TranscriptError::new_err(format!("{path} is a transcript of {}", kind.name())),
        Err(why) => LogError::new_err(format!("{path}: {why}")),
    }
}

fn draw(error: &karl_core::Error, message: String) -> PyErr {
    match error {
        karl_core::Error::NeedsGroups { .. } | karl_core::Error::Replacement { .. } => {
            UsageError::new_err(message)
        }
        karl_core::Error::Offset { .. } => LayoutError::new_err(message),
        karl_core::Error::NotFinite { .. }
        | karl_core::Error::Number { .. }
        | karl_core::Error::Length { .. }
        | karl_core::Error::Code { .. }
        | karl_core::Error::Row { .. }
        | karl_core::Error::Circle { .. }
        | karl_core::Error::Fraction { .. }
        | karl_core::Error::Negative { .. }
        | karl_core::Error::Positive { .. }
        | karl_core::Error::Above { .. }
        | karl_core::Error::Range { .. }
        | karl_core::Error::Outside { .. }
        | karl_core::Error::Most { .. }
        | karl_core::Error::Bytes { .. }
        | karl_core::Error::Merge { .. }
        | karl_core::Error::Pair { .. }
        | karl_core::Error::Total { .. }
        | karl_core::Error::Weight { .. } => ArgumentError::new_err(message),
    }
}
