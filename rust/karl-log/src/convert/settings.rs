//! How to convert.

use karl_reward::Version;

use super::kind::Kind;

/// How to convert.
#[derive(Clone, Debug)]
pub struct ConvertSettings {
    /// The kind of all files, where it is not to be found by looking.
    pub kind: Option<Kind>,
    /// Where rewards come from.
    pub rate: Rate,
    /// The longest line or document that is read, in bytes.
    pub max_line_bytes: usize,
    /// How many threads to work with; at least one is used.
    pub threads: usize,
}

/// Where the reward of a trajectory comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// From the log, where it has one.
    Log,
    /// From the end of the run, where the log has it: 1 for success, else 0.
    Result,
    /// From the calls of tools, as KARL rates them; the weights are those of v1.
    Karl(Version, [f64; 3]),
}
