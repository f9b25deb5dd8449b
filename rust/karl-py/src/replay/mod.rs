//! Bindings of `karl_core::replay`.

#![allow(clippy::doc_markdown, reason = "docstrings are read in Python")]

pub(crate) mod age;
pub(crate) mod priority;

use numpy::PyArray1;
use pyo3::prelude::*;

type Floats<'py> = Bound<'py, PyArray1<f64>>;
