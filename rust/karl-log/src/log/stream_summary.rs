//! Summary of a stream beyond the records in its log.

use karl_core::stream::StreamSummary;

use super::name_counts::NameCounts;
use crate::input::pipe::PipeFacts;

/// Summary of a stream beyond the records in its log.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// Facts about the bytes of the stream.
    pub origin: PipeFacts,
    /// Rewards, and the target over them.
    pub facts: StreamSummary,
    /// Records by domain.
    pub domains: NameCounts,
    /// Records without a group.
    pub ungrouped: u64,
}
