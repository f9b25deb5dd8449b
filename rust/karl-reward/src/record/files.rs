//! The files that calls are given, as numbers.

use std::collections::HashMap;

use super::events::Events;
use crate::fault::Fault;

/// The number of each call's file: calls of one file have one number.
#[derive(Clone, Debug, Default)]
pub(super) struct CallFiles {
    numbers: Vec<Result<usize, Fault>>,
    count: usize,
}

impl CallFiles {
    /// Number the files of calls in order of appearance.
    pub(super) fn of_events(events: &Events<'_>) -> Self {
        let mut seen = HashMap::new();
        let numbers = events.until().0.iter().map(|event| {
            let [_, file] = event.params()?;
            let next = seen.len();
            Ok(*seen.entry(file.name()?).or_insert(next))
        });
        let numbers = numbers.collect();
        Self { numbers, count: seen.len() }
    }

    /// Return the file of a call.
    pub(crate) fn of(&self, call: usize) -> Result<usize, Fault> {
        self.numbers.get(call).copied().unwrap_or(Err(Fault::Attribute))
    }

    /// Return a flag for each file, and none raised.
    pub(crate) fn none(&self) -> Vec<bool> {
        vec![false; self.count]
    }

    /// Return a count for each file, and all 0.
    pub(crate) fn counts(&self) -> Vec<u32> {
        vec![0; self.count]
    }
}
