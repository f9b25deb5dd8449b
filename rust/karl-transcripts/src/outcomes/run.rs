//! Run: trajectories in, trajectories with outcomes out.

use karl_log::atomic_output::OutputTarget;
use karl_log::cancel::Watch;
use karl_log::columns::ScannedRow;
use karl_log::error::{Error, Result};
use karl_log::input::source::Source;
use karl_redact::Protection;
use tempfile::TempDir;

use super::asked_again::{asked_again, join_attempts};
use super::entire_attribution::beside;
use super::graders::GraderVerdicts;
use super::groups::TrajectoryGroups;
use super::issue::issue;
use super::judged_trajectory::JudgedTrajectory;
use super::records::Records;
use super::report::OutcomesReport;
use super::repositories;
use super::request::Request;
use super::reward::reward;
use super::settings::OutcomesSettings;
use super::sub_agent_sessions::Families;
use super::transcript_outcome::{Judged, judge};
use super::write::{FOREIGN_OUTCOME, OutcomeWriter, Rating};
use crate::convert::output::Output;
use crate::convert::tool_kind::{Classified, tell};
use crate::convert::{self, ConvertSettings, Rate, convert};
use crate::tool_calls::{calls, collect_work, trajectory};

/// Reason to drop a record that is not a trajectory.
const NO_TRAJECTORY: &str = "no_trajectory";

/// Find the outcomes of trajectories, and write these with them, completely or not at all. Transcripts are
/// converted on the way.
///
/// # Errors
/// As [`convert()`], and [`Error::Layout`] if there is no trajectory.
pub fn run(
    sources: Vec<Source>,
    target: &OutputTarget,
    settings: &OutcomesSettings,
    watch: &Watch,
) -> Result<OutcomesReport> {
    let mut report = OutcomesReport::default();
    let (mut trajectories, transcripts) = sorted(sources, settings, watch)?;
    let given = trajectories.len();
    let converted = converted(transcripts, target, settings, &mut report, watch)?;
    trajectories.extend(converted.as_ref().map(|(_, source)| source.clone()));
    let opened = trajectories.iter().map(|source| Ok((source.clone(), source.ends()?)));
    let opened = opened.collect::<Result<Vec<_>>>()?;
    watch.expect(watch.bytes() + trajectories.iter().map(|source| 2 * source.size).sum::<u64>());
    let mut records = Records::look(trajectories, settings.max_line_bytes, settings.threads, watch)?;
    let (found, mut accounts) = records.read(read, watch)?;
    accounts.truncate(given);
    report.files = accounts;
    let mut sessions = Vec::with_capacity(found.len());
    for session in found {
        match session {
            Ok(session) => sessions.push(session),
            Err(reason) => *report.dropped.entry(reason).or_default() += 1,
        }
    }
    if sessions.is_empty() {
        let path = target.shown().to_path_buf();
        return Err(Error::Layout { path, problem: "there is no trajectory in what was read".to_owned() });
    }
    repositories::judge(&mut sessions, settings, &mut report, watch)?;
    compare(&mut sessions, &GraderVerdicts::read(&settings.reports)?);
    let output = Output::create(target, settings.protection.clone())?;
    report.secrets =
        records.write(&output, |row, out| write(row, &sessions, &records, settings.rate, out), watch)?;
    for session in &sessions {
        report.count(&session.outcome);
        report.rewarded += u64::from(settings.rate && reward(&session.outcome).is_some());
    }
    opened.iter().try_for_each(|(source, ends)| source.unchanged(ends))?;
    report.bytes += opened.iter().take(given).map(|(source, _)| source.size).sum::<u64>();
    report.written_bytes = output.finish()?;
    Ok(report)
}

/// Separate trajectories from transcripts and everything else, which the conversion accounts for.
fn sorted(
    sources: Vec<Source>,
    settings: &OutcomesSettings,
    watch: &Watch,
) -> Result<(Vec<Source>, Vec<Source>)> {
    let (mut trajectories, mut others) = (Vec::new(), Vec::new());
    for source in sources {
        let is_converted = settings.kind.is_none()
            && !settings.rate
            && source.readable(watch).is_ok()
            && tell(&source, settings.max_line_bytes, watch)? == Classified::Converted;
        if is_converted { trajectories.push(source) } else { others.push(source) }
    }
    trajectories.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((trajectories, others))
}

/// Convert transcripts to a file in a hidden folder beside the target, which is removed with the folder.
fn converted(
    transcripts: Vec<Source>,
    target: &OutputTarget,
    settings: &OutcomesSettings,
    report: &mut OutcomesReport,
    watch: &Watch,
) -> Result<Option<(TempDir, Source)>> {
    if transcripts.is_empty() {
        return Ok(None);
    }
    let folder = target.hidden_directory()?;
    let path = folder.path().join("trajectories.jsonl");
    let wanted = ConvertSettings {
        kind: settings.kind,
        rate: Rate::Log,
        max_line_bytes: settings.max_line_bytes,
        threads: settings.threads,
        abandoned: false,
        protection: Protection::default(),
    };
    report.converted = Some(convert(transcripts, &convert::target(&path, false)?, &wanted, watch)?);
    let name = path.display().to_string();
    Source::open(&path, &name).map(|source| Some((folder, source)))
}

/// Read a record: its work, and what it and the files beside it show.
fn read(row: &ScannedRow<'_>) -> std::result::Result<JudgedTrajectory, &'static str> {
    if !OutcomeWriter::new().accepts(row.record) {
        return Err(FOREIGN_OUTCOME);
    }
    let session = trajectory::with(row.record, |trajectory| {
        let calls = calls(trajectory);
        let mut work = collect_work(trajectory, &calls);
        let Judged { mut outcome, checked } = judge(trajectory, &calls);
        let parent = trajectory.parent.as_ref().map(|parent| parent.id.clone());
        if parent.is_none() {
            let session = trajectory.source.session_id.as_deref().unwrap_or(trajectory.id.as_str());
            beside(&trajectory.source.files, session, &mut work, &mut outcome);
        }
        let first = trajectory.messages.iter().find(|message| message.role.as_str() == "user");
        JudgedTrajectory {
            place: row.spot,
            digest: row.digest,
            parent,
            // A command makes one request every day.
            request: first
                .filter(|first| first.is_of_user())
                .and_then(|first| Request::of(first.content.as_str())),
            issue: first.and_then(|first| issue(first.content.as_str())),
            base_commit: trajectory.source.git["commit_hash"].as_str().map(str::to_owned),
            group: trajectory.group.some().map(str::to_owned),
            work,
            outcome,
            checked,
        }
    });
    session.ok_or(NO_TRAJECTORY)
}

/// Set the components that need the other sessions, or reports.
fn compare(sessions: &mut [JudgedTrajectory], verdicts: &GraderVerdicts) {
    for session in &mut *sessions {
        let names = [Some(session.work.id.as_str()), session.group.as_deref()];
        let names: Vec<String> = names.into_iter().flatten().map(str::to_owned).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        verdicts.set(&names, &mut session.outcome);
    }
    let families = Families::of(sessions);
    families.void_checks(sessions);
    let (roots, called): (Vec<usize>, Vec<usize>) = (0..sessions.len()).partition(|&at| families.is_root(at));
    let mut groups = TrajectoryGroups::new(sessions.len());
    asked_again(sessions, &roots, &mut groups);
    join_attempts(sessions, &roots, &called, &mut groups);
    groups.name(sessions);
}

/// Write a record with its outcome.
fn write(
    row: &ScannedRow<'_>,
    sessions: &[JudgedTrajectory],
    records: &Records,
    rate: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    // Sessions are in the order of their places; a dropped record has none.
    let Ok(at) = sessions.binary_search_by_key(&row.spot, |session| session.place) else { return Ok(()) };
    let JudgedTrajectory { digest, outcome, group, .. } = &sessions[at];
    if *digest != row.digest {
        let place = row.spot.place(row.length);
        return Err(records.inputs[place.input].source.changed(place.offset));
    }
    let rating = if rate { Rating::Set(reward(outcome)) } else { Rating::Kept };
    OutcomeWriter::new().write(row.record, outcome, group.as_deref(), rating, out);
    Ok(())
}
