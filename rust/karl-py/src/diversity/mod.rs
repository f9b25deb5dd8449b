//! Bindings of `karl_core::diversity`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

pub(crate) mod attempts;
pub(crate) mod bleu;
pub(crate) mod distinct;
pub(crate) mod evenness;
pub(crate) mod information;
mod ngram;
pub(crate) mod vendi;

use numpy::PyArray1;
use pyo3::prelude::*;

type Floats<'py> = Bound<'py, PyArray1<f64>>;
