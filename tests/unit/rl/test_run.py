"""Whole runs: what they learn, that they are reproducible, and that a killed one goes on as if it had not been."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import (
    AlarmError,
    CheckpointError,
    DivergedError,
    FileError,
    OutputExistsError,
    OutputForeignError,
    UsageError,
)
from karl_fast.rl import rl
from karl_fast.rl.generate import generate_turns
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.rewards import RewardFunctions
from karl_fast.rl.settings import Alarms, Replay
from tests.unit.rl.conftest import EXAMPLES, lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.rl.settings import Online

REWARD = f"{EXAMPLES / 'reversal.py'}:reward"


def left(out: str | Path) -> dict[str, Any]:
    """What a run left, without what only clocks know."""
    folder = Path(out)
    clocks = ("seconds", "draw_seconds", "tokens_per_second", "peak_bytes", "cache_bytes")
    metrics = [
        {name: value for name, value in line.items() if name not in clocks} for line in lines(folder / "metrics.jsonl")
    ]
    files = ("adapters.safetensors", "rollouts.jsonl")
    return {"metrics": metrics} | {name: (folder / name).read_bytes() for name in files}


def test_it_learns_to_reverse(online: Callable[..., Online]) -> None:
    from karl_fast.rl.setup import prepare

    settings = online(rounds=150, prompts_per_round=8, group_size=8, save_every=150)
    done = rl(settings)
    assert done.steps == 150
    run = prepare(settings, resume=True)
    contexts = [run.policy.encode(prompt.messages) for prompt in run.prompt_set.prompts]
    turns = generate_turns(run.policy, contexts, [4] * len(contexts), temperature=0.01, rows=64, seed=0)
    exact = [
        turn.tokens.tolist() == [*reversed(context[:-1]), 9] for turn, context in zip(turns, contexts, strict=True)
    ]
    run.close()
    assert np.mean(exact) == 1.0


VARIANTS = {
    "grpo": {},
    "epochs": {"epochs": 2, "minibatches": 2},
    "replay": {"replay": Replay(groups=2, max_age=6), "curriculum": "pass-rate"},
    "replay by accuracy error": {"replay": Replay(groups=1, priority="accuracy-error"), "curriculum": "paced"},
    "draws": {"recipe": "dapo", "draws": 3, "curriculum": "paced", "overlong_tokens": 2},
    "learned log z": {"recipe": "flowrl", "micro_batch": 5},
    "guesses of log z": {
        "recipe": "paced",
        "curriculum": "paced",
        "replay": Replay(groups=1, priority="accuracy-error"),
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_and_resumed_run_is_identical(
    online: Callable[..., Online], tmp_path: Path, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from karl_fast.rl import run as measure

    more = VARIANTS[variant]
    rl(online(**more, rounds=6, out=str(tmp_path / "whole")))
    rl(online(**more, rounds=6, out=str(tmp_path / "again")))
    assert left(tmp_path / "whole") == left(tmp_path / "again")

    class Killed(BaseException):
        pass

    for at in (3, 5):  # neither is just behind a checkpoint
        told, kept = [0], measure.drop_non_finite

        def finite(values: Any, told: list[int] = told, at: int = at, kept: Any = kept) -> Any:
            told[0] += 1
            if values["round"] == at:
                raise KeyboardInterrupt
            return kept(values)

        monkeypatch.setattr(measure, "drop_non_finite", finite)
        with pytest.raises(KeyboardInterrupt):
            rl(online(**more, rounds=6, out=str(tmp_path / "cut")), resume=True)
        monkeypatch.setattr(measure, "drop_non_finite", kept)
    rl(online(**more, rounds=6, out=str(tmp_path / "cut")), resume=True)
    assert left(tmp_path / "whole") == left(tmp_path / "cut")


def test_a_run_may_be_made_longer(online: Callable[..., Online], tmp_path: Path) -> None:
    rl(online(rounds=6, out=str(tmp_path / "long")))
    rl(online(rounds=4, out=str(tmp_path / "short")))
    rl(online(rounds=6, out=str(tmp_path / "short")), resume=True)
    assert left(tmp_path / "long") == left(tmp_path / "short")


def test_run_cannot_be_shortened(online: Callable[..., Online], tmp_path: Path) -> None:
    place = tmp_path / "out"
    rl(online(rounds=4))
    before = left(place)
    with pytest.raises(UsageError, match="rounds is 3, and the run has made 4"):
        rl(online(rounds=3), resume=True)
    assert left(place) == before
    assert rl(online(rounds=4), resume=True).rounds == 4
    assert left(place) == before


def test_another_recipe_is_told_by_its_name(online: Callable[..., Online]) -> None:
    rl(online(rounds=2))
    with pytest.raises(CheckpointError, match="its axes changed; its recipe was grpo, and is dapo") as error:
        rl(online(rounds=2, recipe="dapo"), resume=True)
    assert "\n" not in str(error.value)
    assert error.value.hint == "without --resume, in another folder, a run begins anew"


def test_run_without_checkpoint_offers_no_resume(online: Callable[..., Online], tmp_path: Path) -> None:
    rl(online(rounds=2))
    (tmp_path / "out" / "checkpoints" / "0000002" / "state.json").unlink()
    with pytest.raises(OutputExistsError) as error:
        rl(online(rounds=2))
    assert error.value.hint == "it has no checkpoint: --force begins anew in its place"


def test_another_seed_is_another_run(online: Callable[..., Online], tmp_path: Path) -> None:
    rl(online(rounds=2, out=str(tmp_path / "a")))
    rl(online(rounds=2, out=str(tmp_path / "b"), training={"seed": 1}))
    assert left(tmp_path / "a")["rollouts.jsonl"] != left(tmp_path / "b")["rollouts.jsonl"]


def test_a_checkpoint_of_another_run_is_refused(online: Callable[..., Online]) -> None:
    rl(online(rounds=2))
    with pytest.raises(CheckpointError, match="temperature"):
        rl(online(rounds=4, temperature=0.5), resume=True)
    with pytest.raises(OutputExistsError):
        rl(online(rounds=2))
    rl(online(rounds=2, temperature=0.5), force=True)


def test_every_round_says_what_it_was(online: Callable[..., Online]) -> None:
    settings = online(rounds=2)
    rl(settings)
    for number, line in enumerate(lines(Path(settings.out) / "metrics.jsonl")):
        assert (line["round"], line["step"], line["rollouts"]) == (number, number + 1, 16)
        assert line["mismatch_max"] < 1e-4
        assert line["entropy"] > 0
        kinds = [line[f"groups_{kind}"] for kind in ("mixed", "at_top", "at_bottom", "other", "missing")]
        assert sum(kinds) == pytest.approx(1.0)
        assert {"kl", "clip_low", "clip_high", "ratio", "ratio_ess", "advantage_std", "reward.reward"} <= line.keys()
    assert line["ratio"] == pytest.approx(1.0, abs=1e-5)


def test_constant_groups_use_the_runs_outcome_range(online: Callable[..., Online], tmp_path: Path) -> None:
    # Each round is a group of one value: whatever is said, the first symbol of the prompt is paid.
    code = "def first(prompts, **c):\n    return [float(prompts[0][-1]['content'][0]) % 3] * len(prompts)\n"
    (tmp_path / "by.py").write_text(code)
    flat = {"rewards": {f"{tmp_path / 'by.py'}:first": 1.0}, "prompts_per_round": 1, "alarms": Alarms(flat_rounds=0)}
    rl(online(**flat, rounds=8, save_every=1))
    whole = lines(tmp_path / "out" / "metrics.jsonl")
    seen: list[float] = []
    for line in whole:
        seen.append(line["outcome"])
        where = {max(seen): "at_top", min(seen): "at_bottom"} if len(set(seen)) > 1 else {}
        assert line[f"groups_{where.get(seen[-1], 'other')}"] == 1.0, seen
    assert {"at_top", "at_bottom", "other"} <= {name[7:] for line in whole for name in line if line[name] == 1.0}
    rl(online(**flat, rounds=4, save_every=1), force=True)
    rl(online(**flat, rounds=8, save_every=1), resume=True)
    names = [name for name in whole[0] if name.startswith("groups_")]
    assert [[line[name] for name in names] for line in lines(tmp_path / "out" / "metrics.jsonl")] == [
        [line[name] for name in names] for line in whole
    ]


def test_dynamic_sampling_stays_within_its_budget(online: Callable[..., Online], tmp_path: Path) -> None:
    code = "def same(prompts, completions, **c):\n    return [1.0] * len(completions)\n"
    (tmp_path / "same.py").write_text(code)
    flat = online(rounds=2, draws=3, rewards={f"{tmp_path / 'same.py'}:same": 1.0})
    rl(flat)
    assert [(line["draws"], line["rollouts"]) for line in lines(Path(flat.out) / "metrics.jsonl")] == [(3, 48)] * 2
    mixed = online(rounds=4, draws=5, group_size=2, out=str(tmp_path / "mixed"))
    rl(mixed)
    found = lines(Path(mixed.out) / "metrics.jsonl")
    assert any(1 < line["draws"] < 5 for line in found)
    for line in found:
        rows = [row for row in lines(Path(mixed.out) / "rollouts.jsonl") if row["round"] == line["round"]]
        assert len(rows) == line["rollouts"] == line["draws"] * 8
        taken: dict[str, set[float]] = {}
        for row in rows:
            if row["learned"]:
                taken.setdefault(row["group"], set()).add(row["outcome"])
        assert len(taken) == line["learned_groups"] <= 4
        assert line["draws"] == 5 or len(taken) == 4
        assert all(len(values) > 1 for values in taken.values())


ALARMS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "entropy": ({"entropy_floor": 50.0}, {}, "entropy"),
    "kl": ({"kl_ceiling": 1e-9}, {"training": {"learning_rate": 0.1}}, "KL"),
    "step_kl": ({"step_kl_ceiling": 0.01}, {"training": {"learning_rate": 0.1}, "minibatches": 2}, "moved the policy"),
    "flat": ({"flat_rounds": 2}, {"rewards": "same"}, "no group"),
    "missing": ({"missing_share": 0.2}, {"rewards": "bad"}, "bad: raised"),
}


@pytest.mark.parametrize("kind", ALARMS)
def test_alarm_stops_a_run_with_a_hint(online: Callable[..., Online], tmp_path: Path, kind: str) -> None:
    alarms, more, said = ALARMS[kind]
    (tmp_path / "odd.py").write_text(
        "def same(prompts, **c):\n    return [1.0] * len(prompts)\ndef bad(**c):\n    raise OSError\n"
    )
    if isinstance(name := more.get("rewards"), str):
        more = more | {"rewards": {f"{tmp_path / 'odd.py'}:{name}": 1.0}}
    settings = online(**more, rounds=6, alarms=Alarms(**alarms))
    with pytest.raises(AlarmError, match=said) as raised:
        rl(settings)
    assert raised.value.hint
    assert len(lines(Path(settings.out) / "metrics.jsonl")) < 6
    assert (Path(settings.out) / "adapters.safetensors").exists()


def test_kl_ceiling_holds_without_reference_in_recipe(online: Callable[..., Online], tmp_path: Path) -> None:
    kept: dict[str, list[dict[str, Any]]] = {}
    for name, alarms in {"free": Alarms(), "held": Alarms(kl_ceiling=1e6)}.items():
        rl(online(recipe="dr-grpo", rounds=3, alarms=alarms, out=str(tmp_path / name)))
        kept[name] = lines(tmp_path / name / "metrics.jsonl")
    spent = {"seconds", "draw_seconds", "tokens_per_second", "peak_bytes", "cache_bytes"}
    for free, held in zip(kept["free"], kept["held"], strict=True):
        assert "kl" not in free
        assert {key: held[key] for key in free.keys() - spent} == {key: free[key] for key in free.keys() - spent}
    assert [line["kl"] > 0 for line in kept["held"]] == [False, True, True]
    settings = online(recipe="dapo", rounds=6, alarms=Alarms(kl_ceiling=1e-9), training={"learning_rate": 0.1})
    with pytest.raises(AlarmError, match="KL"):
        rl(settings)


def test_gradients_that_are_not_finite_stop_a_run(online: Callable[..., Online]) -> None:
    settings = online(rounds=9, training={"learning_rate": 1e30, "optimizer": "sgd"}, alarms=Alarms(skipped_steps=2))
    with pytest.raises((AlarmError, DivergedError), match="not finite"):
        rl(settings)


@pytest.mark.parametrize(
    ("name", "why", "instead"),
    [
        ("sft", "logged rows", "karl-fast train"),
        ("vpo", "sets of candidates, and candidates is 1", "grpo"),
        ("opd", "there is none", "name a better model"),
        ("ppo-clip", "advantages of a critic", "reinforce-plus-plus"),
    ],
)
def test_recipe_with_unavailable_inputs_is_refused(
    online: Callable[..., Online], name: str, why: str, instead: str
) -> None:
    settings = online(recipe=name)
    with pytest.raises(UsageError, match=why) as raised:
        rl(settings)
    assert instead in (raised.value.hint or "")
    assert not Path(settings.out).exists()


OPPOSED = """
def large(prompts, completions, completion_ids=None, **columns):
    return [sum(ids) / 100 for ids in completion_ids]

def small(prompts, completions, completion_ids=None, **columns):
    return [1 - value for value in large(prompts, completions, completion_ids)]
"""


def test_group_of_one_learns_or_is_refused(online: Callable[..., Online], tmp_path: Path) -> None:
    from karl_fast.objective.recipes import RECIPES

    (tmp_path / "opposed.py").write_text(OPPOSED)
    taught, refused = [], []
    for name in RECIPES:
        found = set()
        for reward in ("large", "small"):
            place = tmp_path / name / reward
            rewards = {f"{tmp_path / 'opposed.py'}:{reward}": 1.0}
            try:
                assert rl(online(recipe=name, group_size=1, rounds=1, out=str(place), rewards=rewards)).steps == 1
            except UsageError as error:
                refused += [name] if "group_size is 1" in str(error) else []
                break
            found.add((place / "adapters.safetensors").read_bytes())
        else:
            assert len(found) == 2, name
            taught.append(name)
    assert set(taught) == {"REINFORCE", "REINFORCE_PLUS_PLUS", "PACED"}
    assert {"GRPO", "RLOO", "MAXRL", "SAMPO", "KONDO", "OAPL", "TPO", "FLOWRL", "FLOWRL_VARGRAD"} <= set(refused)


def test_every_recipe_that_it_takes_makes_a_step(online: Callable[..., Online], tmp_path: Path) -> None:
    from karl_fast.objective import BestCandidate, Preference, SetScore, WeightedLikelihood
    from karl_fast.objective.recipes import RECIPES

    made, refused = [], set()
    for name, point in RECIPES.items():
        sets = any(isinstance(axis, SetScore | BestCandidate) for axis in point.objective.axes().values())
        more: Any = {"candidates": 2} if sets else {}
        more |= {"teacher": f"{EXAMPLES / 'reversal.py'}:wide"} if point.objective.reads_teacher else {}
        settings = online(recipe=name, rounds=1, out=str(tmp_path / name), **more)
        try:
            made.append((name, rl(settings).steps))
        except UsageError:
            refused |= {name} if not isinstance(point.objective, WeightedLikelihood | Preference) else set()
    tasks = {
        "DG_TOKEN",
        "DG_EXPECTED",
        "SCOPE_LITE",
        "SELF_DISTILL_DG",
        "TPO_TOKEN",
        "GRPO_TOKEN",
    }  # need functions
    assert refused == {"PPO_CLIP", *tasks}
    assert len(made) >= 20
    assert all(steps == 1 for _, steps in made)


def test_its_log_is_read_by_inspect_and_sample(online: Callable[..., Online], tmp_path: Path) -> None:
    import karl_fast

    settings = online(rounds=2)
    rl(settings)
    report = karl_fast.inspect([str(Path(settings.out) / "rollouts.jsonl")]).report
    assert report["accounting"]["rows_read"] == 32
    drawn = karl_fast.sample([str(Path(settings.out) / "rollouts.jsonl")], out=str(tmp_path / "data"), k=8)
    assert drawn is not None
    assert len(lines(tmp_path / "data" / "train.jsonl")) > 0


@pytest.mark.parametrize(("draws", "first"), [(1, "forward"), (2, "rewards")])
def test_forward_passes_start_before_rewards(
    online: Callable[..., Online], monkeypatch: pytest.MonkeyPatch, draws: int, first: str
) -> None:
    order = []

    def seen(kind: type, name: str, what: str) -> None:
        plain = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *given, **more: (order.append(what), plain(*given, **more))[1])

    seen(Forward, "begin", "forward")
    seen(RewardFunctions, "__call__", "rewards")
    rl(online(rounds=1, draws=draws))
    assert order[0] == first
    assert set(order) == {"forward", "rewards"}


def test_force_removes_nothing_before_loading(online: Callable[..., Online], tmp_path: Path) -> None:
    settings = online(rounds=2)
    rl(settings)
    out = Path(settings.out)
    (out / "checkpoints" / "notes").mkdir()
    (out / "rounds" / "notes.txt").write_text("mine")
    before = left(out)
    (tmp_path / "none.py").write_text("def policy(seed):\n    raise OSError\n")
    for wrong in ({"model": str(tmp_path / "none")}, {"model": f"{tmp_path / 'none.py'}:policy"}, {"max_context": 1}):
        with pytest.raises(Exception, match=r".*"):
            rl(online(rounds=2, **wrong), force=True)
        assert left(out) == before
    rl(online(rounds=1), force=True)
    assert len(lines(out / "rollouts.jsonl")) == 16
    assert sorted(place.name for place in (out / "checkpoints").iterdir()) == ["0000001", "notes"]
    assert sorted(place.name for place in (out / "rounds").iterdir()) == ["0000001.json", "notes.txt"]


def test_log_without_checkpoint_is_not_resumed(online: Callable[..., Online]) -> None:
    settings = online(rounds=2)
    log = Path(settings.out) / "rollouts.jsonl"
    log.parent.mkdir()
    log.write_text("{}\n")
    with pytest.raises(CheckpointError, match="no checkpoint in") as raised:
        rl(settings, resume=True)
    assert "--force" in str(raised.value.hint)
    assert log.read_text() == "{}\n"
    rl(settings, resume=True, force=True)
    assert len(lines(log)) == 32


@pytest.mark.parametrize("name", ["metrics.jsonl", "rollouts.jsonl"])
def test_shortened_file_is_not_resumed(online: Callable[..., Online], name: str) -> None:
    settings = online(rounds=2)
    rl(settings)
    file = Path(settings.out) / name
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(CheckpointError, match=f"{name} is shorter than when the checkpoint was made"):
        rl(online(rounds=3), resume=True)
    assert len(file.read_bytes()) == 40


def test_a_file_that_has_changed_makes_another_run(online: Callable[..., Online], tmp_path: Path) -> None:
    code = (EXAMPLES / "reversal.py").read_text()
    (tmp_path / "mine.py").write_text(code)
    given = {"rounds": 2, "rewards": {f"{tmp_path / 'mine.py'}:reward": 1.0}}
    rl(online(**given))
    rl(online(**given), resume=True)
    (tmp_path / "mine.py").write_text(code + "# changed\n")
    with pytest.raises(CheckpointError, match=r"mine\.py"):
        rl(online(**given), resume=True)
    (tmp_path / "mine.py").write_text(code)
    settings = online(**given)
    with (tmp_path / "prompts.jsonl").open("a") as file:
        file.write('{"prompt": "1 1"}\n')
    with pytest.raises(CheckpointError, match=r"prompts\.jsonl"):
        rl(settings, resume=True)


def test_a_place_that_is_a_file_is_refused(online: Callable[..., Online]) -> None:
    settings = online()
    Path(settings.out).write_text("mine")
    with pytest.raises(OutputForeignError, match="it exists and is not a directory"):
        rl(settings, force=True)
    assert Path(settings.out).read_text() == "mine"


def test_close_names_the_failure_and_closes_all(online: Callable[..., Online]) -> None:
    from karl_fast.rl.setup import prepare

    run = prepare(online())

    class Full:
        def log(self, values: Any) -> None: ...

        def finish(self) -> None:
            raise OSError(28, "No space left on device")

    run.trackers.append(Full())
    with pytest.raises(FileError, match=r"metrics\.jsonl: No space left"):
        run.close()
    assert run.journal._file.closed
