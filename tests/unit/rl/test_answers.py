"""What stands between two turns of the policy under 25 chat templates: one end of a turn, and the answer."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

from karl_fast.rl.language_model import LanguageModel
from tests.unit.train.test_chat_templates import DATA, MODELS, result, tokenizer, user

if not DATA.is_dir():
    pytest.skip("needs the chat templates of KARL_FAST_TEST_DATA", allow_module_level=True)

REWRITES = {"gptoss": "<|end|>"}
"""What a template writes in history in the place of what stopped the turn."""


def policy(name: str) -> LanguageModel:
    """Return a policy with a tokenizer and without a model, which answers do not need."""
    one = object.__new__(LanguageModel)
    one.tokenizer = tokenizer((DATA / f"{name}.jinja").read_text("utf-8"), MODELS[name].ends)
    one.ends = frozenset(one.tokenizer.convert_tokens_to_ids(list(MODELS[name].ends)))
    one._shown = {}
    return one


def joined(one: LanguageModel, said: str, answer: list[dict[str, Any]]) -> str:
    """Return a turn that ended by itself, and what follows it, as text."""
    tokens = one.tokenizer.encode(said, add_special_tokens=False)
    assert tokens[-1] in one.ends
    return str(one.tokenizer.decode([*tokens, *one.answer(answer, tokens[-1])]))


@pytest.mark.parametrize("name", MODELS)
def test_ended_turn_is_followed_by_the_template(name: str) -> None:
    one, turns = policy(name), [user("Hi"), {"role": "assistant", "content": "Hello."}, user("And?")]
    whole = one.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    behind = whole[whole.rindex("Hello.") :]
    stop = MODELS[name].stop
    assert joined(one, f"Hello.{stop}", [user("And?")]) == behind.replace(REWRITES.get(name, stop), stop, 1)
    cut = one.tokenizer.encode("Hello.", add_special_tokens=False)
    assert one.tokenizer.decode([*cut, *one.answer([user("And?")], None)]) == behind


@pytest.mark.parametrize("name", MODELS)
def test_results_of_tools_are_never_left_out(name: str) -> None:
    one, model = policy(name), MODELS[name]
    stop = model.called or model.stop
    said = joined(one, f"A call.{stop}", [result("a.txt"), user("And?")])
    behind = said.removeprefix(f"A call.{stop}").lstrip()
    assert not behind.startswith(("A call.", *model.ends, *stop.split("><")))
    assert "a.txt" in said
    assert "And?" in said
    assert len(one.answer([result("a.txt")], None)) > len("a.txt")


@pytest.mark.parametrize("name", MODELS)
def test_prompts_may_have_calls_and_results(name: str) -> None:
    one = policy(name)
    call = {"id": "1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "/"}'}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    whole = one.tokenizer.decode(one.encode([user("List"), turn, result("a.txt")]))
    assert "a.txt" in whole
    assert "ls" in whole
    assert '\\"' not in whole
