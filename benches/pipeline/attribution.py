#!/usr/bin/env python3
"""Precision and recall of the attribution of commits by time and files, against the trailers of Entire.

Usage:
    attribution.py prepare REPOSITORY FOLDER
    karl-fast outcomes FOLDER/transcripts --repo REPOSITORY -o FOLDER/outcomes.jsonl
    attribution.py report REPOSITORY FOLDER
    attribution.py survival REPOSITORY FOLDER [COUNT]

REPOSITORY is a clone of https://github.com/entireio/cli with the branch ``entire/checkpoints/v1``. ``prepare`` copies
the transcripts without the files that name their checkpoints, and takes the hashes out of the outputs of ``git
commit``, so that neither trailers nor outputs attribute a commit. ``report`` compares with the trailers of commits on
the trunk. ``survival`` compares with ``git blame -w -M -C`` of every file at the horizon.
"""

import collections
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKPOINTS = "entire/checkpoints/v1"
NAMED = re.compile(rb"\[[^\]\[\"\\]{1,80} [0-9a-f]{7,40}\] ")
DAYS = 14


def git(repository: str, *arguments: str) -> bytes:
    """Return the output of a command of git."""
    return subprocess.run(["git", "-C", repository, *arguments], check=True, capture_output=True).stdout


def blobs(repository: str) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file of the checkpoints that the clone has."""
    listing = git(repository, "ls-tree", "-r", CHECKPOINTS).decode().splitlines()
    files = [(line.split()[2], line.split("\t")[1]) for line in listing if line.endswith((".json", ".jsonl"))]
    command = ["git", "-C", repository, "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for blob, path in files:
            reader.stdin.write(blob.encode() + b"\n")
            reader.stdin.flush()
            answer = reader.stdout.readline().split()
            if answer[1] != b"missing":
                yield path, reader.stdout.read(int(answer[2]) + 1)[:-1]


def prepare(repository: str, folder: Path) -> None:
    """Copy transcripts, and write which session each checkpoint names."""
    sessions, present = [], set()
    for path, content in blobs(repository):
        *_, checkpoint, number, _ = ["", *path.split("/")]
        place = path.split("/")[0] + checkpoint, number
        if path.endswith("/full.jsonl"):
            target = folder / "transcripts" / f"{place[0]}-{place[1]}.jsonl"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(NAMED.sub(b"", content))
            present.add(place)
        elif path.count("/") == 3:
            found = json.loads(content)
            sessions.append((place, found["checkpoint_id"], re.sub(r"^\d{4}-\d\d-\d\d-", "", found["session_id"])))
    rows = [[checkpoint, session, place in present] for place, checkpoint, session in sessions]
    (folder / "checkpoints.json").write_text(json.dumps(rows), "utf-8")


def outcomes(folder: Path) -> dict[str, dict]:
    """Return edits, times and attributed commits of each session, those of its sub-agents included."""
    sessions: dict[str, dict] = {}
    for line in (folder / "outcomes.jsonl").open("rb"):
        row = json.loads(line)
        known = sessions.setdefault(row["source"]["session_id"], {"commits": {}, "paths": set(), "ends": []})
        for one in row.get("attributed") or []:
            known["commits"][one["commit"]] = one
        calls = (call for message in row["messages"] for call in message.get("tool_calls") or [])
        known["paths"] |= {path for call in calls for path in paths(call["function"]["arguments"])}
        known["ends"] += [row["started_at"], row["ended_at"]]
    return sessions


def paths(arguments: str) -> Iterator[str]:
    """Yield the path of a tool call that edits a file."""
    try:
        values = json.loads(arguments)
    except json.JSONDecodeError:
        return
    if isinstance(values, dict) and not values.keys().isdisjoint({"content", "new_string", "edits", "new_source"}):
        yield values.get("file_path") or values.get("notebook_path") or ""


def report(repository: str, folder: Path) -> None:
    """Print precision, recall, false attributions, and the reason of each miss."""
    sessions = outcomes(folder)
    named: dict[str, set[str]] = collections.defaultdict(set)
    present: dict[str, set[str]] = collections.defaultdict(set)
    for checkpoint, session, is_there in json.loads((folder / "checkpoints.json").read_text("utf-8")):
        named[checkpoint].add(session)
        if is_there and session in sessions:
            present[checkpoint].add(session)
    form = "--format=%x01%H%x00%P%x00%(trailers:key=Entire-Checkpoint,valueonly,separator=%x2C)%x00"
    commits = {}
    log = git(repository, "log", "--name-only", "--no-renames", form).decode(errors="replace")
    for text in log.split("\x01")[1:]:
        sha, parents, trailers, files = text.split("\0")
        ids = [one.strip() for one in trailers.split(",") if one.strip()]
        commits[sha] = {"merge": " " in parents, "ids": ids, "files": files.split()}
    truth = {(session, sha) for sha, commit in commits.items() for one in commit["ids"] for session in present[one]}
    labels = {(session, sha) for sha, commit in commits.items() for one in commit["ids"] for session in named[one]}
    found = {(session, sha) for session, known in sessions.items() for sha in known["commits"] if sha in commits}
    judged = {
        (session, sha) for session, sha in found if commits[sha]["ids"] and all(map(named.get, commits[sha]["ids"]))
    }
    work = {(session, sha) for session, sha in truth if edited(sessions[session], commits[sha])}
    right = found & labels
    committed = {session for session, _ in truth}
    print(f"{len(sessions)} sessions with a transcript, {len(committed)} with a commit, {len(truth)} pairs")
    share("recall, all pairs", len(truth & found), len(truth))
    share("recall, pairs whose session edited a file of the commit", len(work & found), len(work))
    share("precision, commits whose trailers are all known", len(judged & right), len(judged))
    without = sessions.keys() - {session for session, _ in labels}
    wrong = [(session, sha) for session, sha in found if session in without]
    of = len({session for session, _ in wrong})
    print(f"{len(without)} sessions without a commit: {len(wrong)} attributions, of {of} sessions")
    print(f"{len(found - judged)} attributions of commits that no known trailer labels")
    misses = collections.Counter(reason(sessions[session], commits[sha]) for session, sha in truth - found)
    print("misses:", *(f"  {count:3} {why}" for why, count in misses.most_common()), sep="\n")
    print("attributions that the trailers do not name:")
    for session, sha in sorted(judged - right):
        print(f"  {session[:8]} {sha[:9]} {sessions[session]['commits'][sha]['lines']} lines")


def share(name: str, part: int, whole: int) -> None:
    """Print a share."""
    print(f"{name}: {part} of {whole}, {part / max(whole, 1):.3f}")


def edited(session: dict, commit: dict) -> bool:
    """Return whether a session edited a file of a commit."""
    return any(path == file or path.endswith("/" + file) for path in session["paths"] for file in commit["files"])


def reason(session: dict, commit: dict) -> str:
    """Return why a commit was missed."""
    if commit["merge"]:
        return "the commit is a merge"
    if not session["paths"]:
        return "the session edited no file"
    if not edited(session, commit):
        return "the session edited no file of the commit"
    return "the session's lines are fewer than a tenth of the commit's"


def survival(repository: str, folder: Path, count: int) -> None:
    """Compare the survival of commits with a blame of every file at the horizon."""
    listing = git(repository, "log", "--first-parent", "--format=%H %ct").decode().splitlines()
    trunk = [(line.split()[0], int(line.split()[1])) for line in listing]
    rows = [json.loads(line) for line in (folder / "outcomes.jsonl").open("rb")]
    known = [one for row in rows for one in row["evidence"] if one["component"] == "survived" and one.get("commit")]
    evidence = sorted({(one["commit"], one["why"]) for one in known})
    checked = collections.Counter[bool]()
    for sha, why in evidence:
        ours = re.match(r"(\d+) of (\d+) lines exist in ([0-9a-f]+)", why)
        assert ours is not None
        written = added(repository, sha)
        # A session alone in its commit wrote all of it: then both counts are the commit's.
        if int(ours[2]) != len(written) or checked.total() == count:
            continue
        time = int(git(repository, "show", "-s", "--format=%ct", sha))
        horizon = next(one for one, at in trunk if at <= time + DAYS * 86400)
        standing = len(written & followed(repository, sha, horizon))
        checked[(int(ours[1]), ours[3]) == (standing, horizon)] += 1
        print(f"{sha[:9]}: {ours[1]} of {ours[2]} lines, blame of every file {standing}")
    print(f"{checked[True]} commits equal, {checked[False]} differ")


def added(repository: str, sha: str) -> set[tuple[str, int]]:
    """Return path and number of each line that a commit added, blank ones left out."""
    text = git(repository, "diff-tree", "-r", "--root", "-p", "-U0", "-w", "-M", "--no-commit-id", sha)
    places, path, number = set(), "", 0
    for line in text.decode(errors="replace").split("\n"):
        if line.startswith("+++ "):
            path = line[6:]
        elif found := re.match(r"@@ -\S+ \+(\d+)", line):
            number = int(found[1])
        elif line.startswith("+"):
            places |= {(path, number)} if line[1:].strip() else set()
            number += 1
    return places


def followed(repository: str, sha: str, seen: str) -> set[tuple[str, int]]:
    """Return path and number, in a commit, of each line that a blame of every file at another follows there."""
    places = set()
    for file in git(repository, "ls-tree", "-r", "--name-only", seen).decode().splitlines():
        path, number = "", None
        text = git(repository, "blame", "-w", "-M", "-C", "--porcelain", f"{sha}..{seen}", "--", file)
        for line in text.decode(errors="replace").split("\n"):
            if line.startswith("\t"):
                places |= {(path, number)} if number is not None else set()
                number = None
            elif line.startswith(sha):
                number = int(line.split()[1])
            elif line.startswith("filename ") and number is not None:
                path = line[9:]
    return places


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    verb, where, place = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if verb == "survival":
        survival(where, place, int(sys.argv[4]) if len(sys.argv) > 4 else 20)
    else:
        {"prepare": prepare, "report": report}[verb](where, place)
