//! Names of settings to what they mean.

use karl_log::detect::Wishes;
use karl_log::extract::Compare;
use karl_log::format::{Overrides, by_name};
use pyo3::prelude::*;

use crate::boundary::error::UsageError;

/// Return the caller's settings for reading the files.
pub(crate) fn wishes(format: Option<&str>, overrides: Overrides, max_line_bytes: usize) -> PyResult<Wishes> {
    let unknown = |name: &str| UsageError::new_err(format!("unknown format {name:?}"));
    let format = format.map(|name| by_name(name).ok_or_else(|| unknown(name))).transpose()?;
    Ok(Wishes { format, overrides, max_line_bytes })
}

/// Parse the name of the part of records to compare.
pub(super) fn compared(name: Option<&str>) -> PyResult<Option<Compare>> {
    let unknown = |name: &str| UsageError::new_err(format!("compare is {name:?}, wanted content or records"));
    name.map(|name| Compare::by_name(name).ok_or_else(|| unknown(name))).transpose()
}
