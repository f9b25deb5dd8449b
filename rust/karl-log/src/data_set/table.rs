//! Columns of the rows of a data set.

use super::row::DataSetRow;

/// Numbers and hashes of rows, a column each.
#[derive(Clone, Debug, Default)]
pub struct RowTable {
    /// Hash of each row's line.
    pub lines: Vec<u64>,
    /// Bytes of each line, without its end.
    pub bytes: Vec<u64>,
    /// Messages of each row; -1 where it has no array of messages.
    pub messages: Vec<i64>,
    /// Messages of the assistant; -1 where the row has no array of messages.
    pub turns: Vec<i64>,
    /// Hash of each row's group and id; that of the line where it has no id. Of rows with a stamp.
    pub records: Vec<u64>,
    /// Hash of each row's group; 0 where it has none. Of rows with a stamp.
    pub groups: Vec<u64>,
    /// Reward of each row; NaN where it has none. Of rows with a stamp.
    pub rewards: Vec<f64>,
}

impl RowTable {
    /// Return the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn push(&mut self, row: &DataSetRow) {
        self.lines.push(row.line);
        self.bytes.push(row.bytes);
        self.messages.push(row.messages);
        self.turns.push(row.turns);
        if let Some(stamp) = &row.stamp {
            self.records.push(stamp.record);
            self.groups.push(stamp.group.map_or(0, |hash| hash.max(1)));
            self.rewards.push(stamp.reward);
        }
    }

    pub(super) fn append(&mut self, mut more: Self) {
        self.lines.append(&mut more.lines);
        self.bytes.append(&mut more.bytes);
        self.messages.append(&mut more.messages);
        self.turns.append(&mut more.turns);
        self.records.append(&mut more.records);
        self.groups.append(&mut more.groups);
        self.rewards.append(&mut more.rewards);
    }
}

/// Equality by bits: rewards may be NaN.
impl PartialEq for RowTable {
    fn eq(&self, other: &Self) -> bool {
        let rewards = |table: &Self| table.rewards.iter().map(|reward| reward.to_bits()).collect::<Vec<_>>();
        (&self.lines, &self.bytes, &self.messages, &self.turns, &self.records, &self.groups)
            == (&other.lines, &other.bytes, &other.messages, &other.turns, &other.records, &other.groups)
            && rewards(self) == rewards(other)
    }
}
