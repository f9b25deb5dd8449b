//! Run: trajectories in, trajectories with outcomes out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use karl_log::atomic_output::OutputTarget;
use karl_log::cancel::Watch;
use karl_log::columns::ScannedRow;
use karl_log::error::{Error, Result};
use karl_log::format::Component;
use karl_log::input::source::Source;
use karl_redact::Protection;
use tempfile::TempDir;

use super::commits;
use super::groups::{Families, OutcomeRow, Request, TrajectoryGroups, asked_again, issue, join_attempts};
use super::outcome::{Evidence, Outcome, Report, Settings, reward};
use super::records::{FOREIGN_OUTCOME, OutcomeWriter, Rating, Records};
use super::transcript_outcome::{GraderVerdicts, TranscriptOutcome, judge};
use crate::convert::run::Output;
use crate::convert::tool_kind::{Classified, classify};
use crate::convert::{self, ConvertSettings, EntireMetadata, Rate, convert};
use crate::git::{PullRequest, Refusal, Why, shared_directory};
use crate::tool_calls::{SessionWork, calls, collect_work, trajectory};

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
    settings: &Settings,
    watch: &Watch,
) -> Result<Report> {
    let mut report = Report::default();
    let (mut trajectories, transcripts) = partition_sources(sources, settings, watch)?;
    let given = trajectories.len();
    let converted = convert_transcripts(transcripts, target, settings, &mut report, watch)?;
    trajectories.extend(converted.as_ref().map(|(_, source)| source.clone()));
    let opened = trajectories.iter().map(|source| Ok((source.clone(), source.ends()?)));
    let opened = opened.collect::<Result<Vec<_>>>()?;
    watch.expect(watch.bytes() + trajectories.iter().map(|source| 2 * source.size).sum::<u64>());
    let mut records = Records::open(trajectories, settings.max_line_bytes, settings.threads, watch)?;
    let (found, mut accounts) = records.read(read_row, watch)?;
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
    compare_with_repositories(&mut sessions, settings, &mut report, watch)?;
    compare_sessions(&mut sessions, &GraderVerdicts::read(&settings.reports)?);
    let output = Output::create(target, settings.protection.clone())?;
    report.secrets =
        records.write(&output, |row, out| write_row(row, &sessions, &records, settings.rate, out), watch)?;
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
fn partition_sources(
    sources: Vec<Source>,
    settings: &Settings,
    watch: &Watch,
) -> Result<(Vec<Source>, Vec<Source>)> {
    let (mut trajectories, mut others) = (Vec::new(), Vec::new());
    for source in sources {
        let is_converted = settings.kind.is_none()
            && !settings.rate
            && source.readable(watch).is_ok()
            && classify(&source, settings.max_line_bytes, watch)? == Classified::Converted;
        if is_converted { trajectories.push(source) } else { others.push(source) }
    }
    trajectories.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((trajectories, others))
}

/// Convert transcripts to a file in a hidden folder beside the target, which is removed with the folder.
fn convert_transcripts(
    transcripts: Vec<Source>,
    target: &OutputTarget,
    settings: &Settings,
    report: &mut Report,
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
fn read_row(row: &ScannedRow<'_>) -> std::result::Result<OutcomeRow, &'static str> {
    if !OutcomeWriter::new().accepts(row.record) {
        return Err(FOREIGN_OUTCOME);
    }
    let session = trajectory::with(row.record, |trajectory| {
        let calls = calls(trajectory);
        let mut work = collect_work(trajectory, &calls);
        let TranscriptOutcome { mut outcome, checked } = judge(trajectory, &calls);
        let parent = trajectory.parent.as_ref().map(|parent| parent.id.clone());
        if parent.is_none() {
            let session = trajectory.source.session_id.as_deref().unwrap_or(trajectory.id.as_str());
            apply_entire_metadata(&trajectory.source.files, session, &mut work, &mut outcome);
        }
        let first = trajectory.messages.iter().find(|message| message.role.as_str() == "user");
        OutcomeRow {
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

/// Take over what the files beside a transcript say of its session: the share of the committed lines that the
/// agent wrote, and the checkpoints that trailers of commits may name.
pub(super) fn apply_entire_metadata(
    files: &[String],
    session: &str,
    work: &mut SessionWork,
    outcome: &mut Outcome,
) {
    let all: Vec<_> =
        files.iter().filter_map(|file| Some((file, EntireMetadata::next_to(Path::new(file))?))).collect();
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

/// Set the components that need the other sessions, or reports.
fn compare_sessions(sessions: &mut [OutcomeRow], verdicts: &GraderVerdicts) {
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
fn write_row(
    row: &ScannedRow<'_>,
    sessions: &[OutcomeRow],
    records: &Records,
    rate: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    // Sessions are in the order of their places; a dropped record has none.
    let Ok(at) = sessions.binary_search_by_key(&row.spot, |session| session.place) else { return Ok(()) };
    let OutcomeRow { digest, outcome, group, .. } = &sessions[at];
    if *digest != row.digest {
        let place = row.spot.place(row.length);
        return Err(records.inputs[place.input].source.changed(place.offset));
    }
    let rating = if rate { Rating::Set(reward(outcome)) } else { Rating::Kept };
    OutcomeWriter::new().write(row.record, outcome, group.as_deref(), rating, out);
    Ok(())
}

/// Compare sessions with the repositories that the user named, or with those of their working directories where
/// these exist; add what they show to the outcomes.
pub(super) fn compare_with_repositories(
    sessions: &mut [OutcomeRow],
    settings: &Settings,
    report: &mut Report,
    watch: &Watch,
) -> Result<()> {
    let everyone: Vec<usize> = (0..sessions.len()).collect();
    let wanted = commits::Settings {
        after: i64::from(settings.after_days) * 86_400,
        pull_requests: pull_requests(&settings.pull_requests)?,
        threads: settings.threads,
    };
    for path in &settings.repositories {
        compare_with(path, &everyone, sessions, &wanted, report, watch)?
            .map_err(|refusal| refusal_error(&refusal))?;
    }
    if settings.repositories.is_empty() {
        for (path, members) in by_repository(sessions, report, watch)? {
            if let Err(refusal) = compare_with(&path, &members, sessions, &wanted, report, watch)? {
                count_refusal(&refusal, members.len(), report);
            }
        }
    }
    Ok(())
}

/// Read the pull requests that `gh` saved.
fn pull_requests(files: &[PathBuf]) -> Result<Vec<PullRequest>> {
    let mut all = Vec::new();
    for path in files {
        let text = std::fs::read(path).map_err(|source| Error::io("read", path, source))?;
        let wanted = "wanted the output of `gh pr view --json number,state,mergedAt,mergeCommit,commits`";
        let problem = |error: serde_json::Error| Error::Layout {
            path: path.clone(),
            problem: format!("{error}; {wanted}"),
        };
        all.extend(PullRequest::parse(&text).map_err(problem)?);
    }
    Ok(all)
}

/// Group sessions by the repository of their working directory.
fn by_repository(
    sessions: &[OutcomeRow],
    report: &mut Report,
    watch: &Watch,
) -> Result<BTreeMap<PathBuf, Vec<usize>>> {
    let mut by_directory: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (at, session) in sessions.iter().enumerate() {
        let directory = session.work.directory.as_deref().filter(|path| path.is_absolute());
        if let Some(directory) = directory.and_then(existing) {
            by_directory.entry(directory).or_default().push(at);
        }
    }
    let mut groups: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
    for (directory, members) in by_directory {
        let direct = separate_interruption(shared_directory(directory, watch))?;
        let repository = match (direct, main_repository(directory)) {
            (Err(refusal), Some(main)) if refusal.why == Why::NoRepository => {
                separate_interruption(shared_directory(&main, watch))?
            }
            (direct, _) => direct,
        };
        match repository {
            Ok(repository) => groups.entry(repository).or_default().extend(members),
            Err(refusal) => count_refusal(&refusal, members.len(), report),
        }
    }
    Ok(groups)
}

/// Return a folder, or of one that is gone, as a worktree that was removed, the nearest that exists; not the user's
/// own folder, which may be a repository of settings.
fn existing(directory: &Path) -> Option<&Path> {
    if directory.is_dir() {
        return Some(directory);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let nearest = directory.ancestors().skip(1).find(|folder| folder.is_dir())?;
    let is_users = home.as_deref().is_some_and(|home| home.starts_with(nearest));
    let is_in_repository = || nearest.ancestors().any(|folder| folder.join(".git").exists());
    (!is_users && is_in_repository()).then_some(nearest)
}

/// Return the repository of a worktree that it no longer knows: the file `.git` in it, or above, names its place.
fn main_repository(directory: &Path) -> Option<PathBuf> {
    let file = directory.ancestors().map(|folder| folder.join(".git")).find(|file| file.is_file())?;
    let text = std::fs::read_to_string(&file).ok()?;
    let place = file.parent()?.join(text.strip_prefix("gitdir: ")?.trim_end());
    let main = place.ancestors().find(|folder| folder.ends_with("worktrees"))?.parent()?.to_path_buf();
    main.is_dir().then_some(main)
}

/// Compare sessions with one repository.
fn compare_with(
    path: &Path,
    members: &[usize],
    sessions: &mut [OutcomeRow],
    settings: &commits::Settings,
    report: &mut Report,
    watch: &Watch,
) -> Result<std::result::Result<(), Refusal>> {
    let works: Vec<&SessionWork> = members.iter().map(|&at| &sessions[at].work).collect();
    let found = match separate_interruption(commits::compare(path, &works, settings, watch))? {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    report.repositories += 1;
    for (&at, found) in members.iter().zip(found) {
        sessions[at].outcome.absorb(found);
    }
    Ok(Ok(()))
}

/// Separate cancellation from what is wrong with a repository.
fn separate_interruption<T>(
    result: std::result::Result<T, Refusal>,
) -> Result<std::result::Result<T, Refusal>> {
    match result {
        Err(refusal) if refusal.why == Why::Interrupted => Err(Error::Interrupted),
        other => Ok(other),
    }
}

fn refusal_error(refusal: &Refusal) -> Error {
    Error::Layout { path: refusal.path.clone(), problem: refusal.problem() }
}

fn count_refusal(refusal: &Refusal, sessions: usize, report: &mut Report) {
    *report.without_repository.entry(refusal.why.name()).or_default() += sessions as u64;
}
