//! Kinds of repositories: bare, worktrees, SHA-256, incomplete, hostile.

use std::fs;
use std::path::Path;
use std::process::Command;

use karl_log::Watch;
use karl_log::format::Component::{Reverted, Survived};
use karl_transcripts::git::{Refusal, Why};
use karl_transcripts::outcomes::commits::{Settings, compare};
use karl_transcripts::tool_calls::{FileEdit, SessionWork};

use super::{DAY, Made, code, rules, session, ten_lines};

#[test]
fn a_bare_clone_a_worktree_a_subfolder_and_sha256_are_read_alike() {
    let mut made = Made::new();
    let (session, _) = ten_lines(&mut made);
    made.write("src/inner/x.py", "x = 1\n");
    made.later();
    let beside = tempfile::tempdir().unwrap();
    let (bare, tree) = (beside.path().join("bare\n.git"), beside.path().join("tree"));
    made.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    made.git(&["worktree", "add", "-q", tree.to_str().unwrap()]);
    for path in [made.path(), &bare, &tree, &made.path().join("src/inner")] {
        let outcome = compare(path, &[&session], &Settings::default(), &Watch::new()).unwrap().remove(0);
        assert_eq!(outcome.get(Survived), Some(1.0), "{}", path.display());
    }
    let mut made = Made::with(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    let (session, hash) = ten_lines(&mut made);
    made.later();
    let outcome = made.outcome(session);
    assert_eq!(
        (hash.len(), rules(&outcome), outcome.get(Survived)),
        (64, vec![(&*hash, "time_and_files")], Some(1.0))
    );
}

#[test]
fn file_names_with_line_breaks_and_escapes() {
    let name = "dir\n/a \u{1b}[31m\t\"é\\.py";
    let mut made = Made::new();
    made.wait(DAY);
    let mut session = session(&made, &[]);
    session.edits.push(FileEdit {
        path: format!("/repo/{name}").replace('\\', "\\"),
        added: code("a", 0..10).lines().map(str::to_owned).collect(),
        ..FileEdit::default()
    });
    made.write(name, &code("a", 0..10));
    let hash = made.commit("Odd");
    made.later();
    let outcome = made.outcome(session);
    assert_eq!(rules(&outcome), [(&*hash, "time_and_files")]);
    assert_eq!(outcome.get(Survived), Some(1.0));
}

fn refusal(path: &Path) -> Refusal {
    compare(path, &[&SessionWork::default()], &Settings::default(), &Watch::new()).unwrap_err()
}

#[test]
fn what_is_no_whole_repository_is_refused_with_a_name_and_a_hint() {
    let mut made = Made::new();
    ten_lines(&mut made);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let url = format!("file://{}", made.path().display());
    made.git(&["clone", "-q", "--depth", "1", &url, at("shallow").to_str().unwrap()]);
    made.git(&["init", "-q", at("empty").to_str().unwrap()]);
    fs::create_dir(at("plain")).unwrap();
    made.git(&["clone", "-q", "--bare", &url, at("damaged").to_str().unwrap()]);
    let objects = at("damaged").join("objects");
    fs::remove_dir_all(&objects).unwrap();
    fs::create_dir_all(objects.join("pack")).unwrap();
    let mut cases = vec![
        ("shallow", Why::Shallow, "git fetch --unshallow"),
        ("empty", Why::NoCommits, "no commits"),
        ("plain", Why::NoRepository, "not in a git repository"),
        ("missing", Why::NoFolder, "check the path"),
        ("damaged", Why::MissingObject, "clone it in full"),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
        cases.push(("loop", Why::NoFolder, "check the path"));
    }
    for (name, why, hint) in cases {
        let refusal = refusal(&at(name));
        assert_eq!(refusal.why, why, "{name}: {refusal}");
        assert!(refusal.to_string().contains(hint) && refusal.to_string().contains(name), "{refusal}");
    }
}

#[test]
fn links_in_circles_and_submodules_are_only_objects() {
    #[cfg(unix)]
    {
        let mut made = Made::new();
        std::os::unix::fs::symlink("loop", made.path().join("loop")).unwrap();
        std::os::unix::fs::symlink("..", made.path().join("up")).unwrap();
        let commit = made.git(&["rev-parse", "HEAD"]);
        made.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},sub")]);
        let (session, _) = ten_lines(&mut made);
        made.later();
        assert_eq!(made.outcome(session).get(Survived), Some(1.0));
    }
}

/// Let every setting of a repository that names a command create a file.
#[test]
#[cfg(unix)]
fn nothing_of_the_repository_is_executed() {
    use std::os::unix::fs::PermissionsExt;

    let mut made = Made::new();
    made.write(".gitattributes", "* diff=evil filter=evil merge=evil\n");
    let (session, hash) = ten_lines(&mut made);
    made.wait(DAY);
    made.git(&["revert", "--no-edit", &hash]);
    made.later();
    let trace = made.path().join("executed");
    let script = made.path().join("evil.sh");
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $@\" >> '{}'\ncat\n", trace.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = script.to_str().unwrap();
    for hook in
        ["post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "fsmonitor-watchman"]
    {
        fs::copy(&script, made.path().join(".git/hooks").join(hook)).unwrap();
    }
    for key in [
        "core.fsmonitor",
        "core.pager",
        "pager.log",
        "pager.blame",
        "core.sshCommand",
        "core.gitProxy",
        "core.editor",
        "core.askPass",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "merge.evil.driver",
        "gpg.program",
        "credential.helper",
        "uploadpack.packObjectsHook",
        "core.alternateRefsCommand",
        "alias.log",
        "alias.blame",
        "remote.origin.uploadpack",
    ] {
        made.git(&["config", key, if key.starts_with("alias") { "!evil.sh" } else { evil }]);
    }
    for (key, value) in [
        ("log.showSignature", "true"),
        ("remote.origin.url", &*format!("ext::{evil}")),
        ("protocol.ext.allow", "always"),
        ("remote.origin.promisor", "true"),
        ("core.hooksPath", ".git/hooks"),
        ("blame.ignoreRevsFile", "/dev/zero"),
        ("diff.orderFile", "/dev/zero"),
        ("filter.evil.required", "true"),
    ] {
        made.git(&["config", key, value]);
    }
    let _ = fs::remove_file(&trace);
    let outcome = made.outcome(session);
    assert_eq!((outcome.get(Reverted), outcome.get(Survived)), (Some(1.0), Some(0.0)));
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
    // The same settings do run commands where git is called without care.
    let _ = Command::new("git")
        .current_dir(made.path())
        .args(["log", "-p", "--ext-diff", "-O/dev/null"])
        .output()
        .unwrap();
    assert!(trace.exists());
}

#[test]
fn a_partial_clone_fetches_nothing() {
    let mut made = Made::new();
    let (session, _) = ten_lines(&mut made);
    made.later();
    made.git(&["config", "uploadpack.allowFilter", "true"]);
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join("partial");
    let url = format!("file://{}", made.path().display());
    made.git(&["clone", "-q", "--bare", "--filter=blob:none", &url, partial.to_str().unwrap()]);
    let packs = || fs::read_dir(partial.join("objects/pack")).unwrap().count();
    let before = packs();
    let refusal = compare(&partial, &[&session], &Settings::default(), &Watch::new()).unwrap_err();
    assert_eq!((refusal.why, packs()), (Why::MissingObject, before), "{refusal}");
}
