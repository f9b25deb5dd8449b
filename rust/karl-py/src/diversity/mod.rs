//! Bindings of `karl_core::diversity`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

pub(crate) mod attempts;
pub(crate) mod categories;
pub(crate) mod sequences;

use numpy::PyArray1;
use pyo3::prelude::*;

type Floats<'py> = Bound<'py, PyArray1<f64>>;
