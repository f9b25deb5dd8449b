//! The engine of the group scores: statistics of each group, one pass over the rows, and the line of each group.

pub(in crate::advantage) mod apply;
pub(in crate::advantage) mod by_id;
pub(crate) mod constant_groups;
pub(in crate::advantage) mod contiguous;
pub(in crate::advantage) mod equal_size_groups;
pub(in crate::advantage) mod gather;
pub(in crate::advantage) mod global_stats;
pub(in crate::advantage) mod stats;
