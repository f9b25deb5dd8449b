//! Counts of calls of each tool.

/// The count of each tool, in the order in which they are counted.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    counts: Vec<(bool, u32)>,
    /// Position of the count of each tool, from 1; 0 between trajectories.
    places: Vec<usize>,
}

impl Tools {
    /// Forget all.
    pub fn clear(&mut self) {
        self.counts.clear();
    }

    /// Add a tool: whether it changes files, and its count.
    pub fn push(&mut self, changes: bool, count: u32) {
        self.counts.push((changes, count));
    }

    /// Count calls, each by the number of its tool and whether that changes files.
    pub fn count(&mut self, calls: impl Iterator<Item = (u32, bool)> + Clone) {
        for (tool, changes) in calls.clone() {
            if tool as usize >= self.places.len() {
                self.places.resize(tool as usize + 1, 0);
            }
            let place = &mut self.places[tool as usize];
            if *place == 0 {
                self.counts.push((changes, 0));
                *place = self.counts.len();
            }
            self.counts[*place - 1].1 += 1;
        }
        calls.for_each(|(tool, _)| self.places[tool as usize] = 0);
    }

    /// Return for each tool a flag that it changes files, and its count.
    #[must_use]
    pub fn counts(&self) -> &[(bool, u32)] {
        &self.counts
    }
}
