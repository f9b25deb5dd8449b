//! Records with plain field names, and any other record together with `--id`, `--group`, `--reward` and
//! `--messages`.

use super::Format;

/// Format that matches every record.
pub const GENERIC: Format = Format {
    name: "generic",
    about: "id, group, reward and messages under their own names",
    id: "id",
    group: "group",
    reward: "reward",
    domain: "domain",
    messages: "messages",
    tools: "tools",
    prompt: "prompt",
    completion: "completion",
    text: "text",
    policy_version: "policy_version",
    model: "model",
    ..Format::NOTHING
};
