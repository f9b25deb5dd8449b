//! Places of chosen records that could not be written.

use karl_log::Place;
use karl_log::conversation::Flaw;
use pyo3::prelude::*;

/// A chosen record that could not be written, and its place in a file.
#[derive(Clone, IntoPyObject)]
pub(super) struct FailedRow {
    reason: &'static str,
    path: String,
    offset: u64,
}

impl FailedRow {
    pub(super) fn new(log: &karl_log::Log, (flaw, place): (Flaw, Place)) -> Self {
        let path = log.inputs[place.input].source.name.clone();
        Self { reason: flaw.name(), path, offset: place.offset }
    }
}
