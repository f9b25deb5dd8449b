//! `metadata.json` that Entire keeps beside each snapshot of a session.

use std::path::Path;

use karl_log::format::Component;

use super::outcome::{Evidence, Outcome};
use crate::convert::EntireMetadata;
use crate::tool_calls::SessionWork;

/// Take over what the files beside a transcript say of its session: the share of the committed lines that the
/// agent wrote, and the checkpoints that trailers of commits may name.
pub(super) fn beside(files: &[String], session: &str, work: &mut SessionWork, outcome: &mut Outcome) {
    let all: Vec<_> =
        files.iter().filter_map(|file| Some((file, EntireMetadata::beside(Path::new(file))?))).collect();
    let ours = || all.iter().filter(|(_, metadata)| metadata.is_of(session));
    work.trailers.extend(ours().map(|(_, metadata)| metadata.checkpoint.clone()));
    let last = ours()
        .filter(|(_, metadata)| metadata.attribution.is_some())
        .max_by_key(|(_, metadata)| metadata.created);
    if let Some((file, metadata)) = last
        && let Some(share) = metadata.attribution.filter(|share| (0.0..=1.0).contains(share))
    {
        let evidence = Evidence {
            file: Some(Path::new(file).with_file_name(EntireMetadata::NAME).display().to_string()),
            why: "initial_attribution.agent_percentage".to_owned(),
            ..Evidence::default()
        };
        outcome.set(Component::Attribution, share, evidence);
    }
}
