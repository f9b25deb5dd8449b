//! What a stream held beside the records that its log has.

use karl_core::stream::StreamSummary;

use super::name_counts::NameCounts;
use crate::input::pipe::Origin;

/// What was found in a stream beside the records that its log has.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// The bytes that came.
    pub origin: Origin,
    /// The rewards, and the target over them.
    pub facts: StreamSummary,
    /// Records by domain.
    pub domains: NameCounts,
    /// Records without a group.
    pub ungrouped: u64,
}
