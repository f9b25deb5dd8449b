"""Which tokens are learned: every turn of the assistant, with what ends it, and nothing else."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import DataSetError, NothingToTrainError, TemplateError
from karl_fast.train import Training, train
from karl_fast.train.chat_template import Renderer, Text
from karl_fast.train.examples import fit_text, prepare_examples, render_rows
from tests.unit.train.test_mlx_lm_defects import chat, learned, renderer, write  # noqa: F401  (a fixture)

if TYPE_CHECKING:
    from pathlib import Path

THINKING = (
    "{% for message in messages %}{% if message['role'] == 'assistant' and not loop.last %}"
    "<|im_start|>assistant\n{{ message['content'].split('</think>')[-1] }}<|im_end|>\n"
    "{% else %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Leaves the thoughts of earlier turns out, as the template of Qwen3 does."""

MARKED = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}{{ 'bot:' }}"
    "{% generation %}{{ message['content'] }}<|im_end|>{% endgeneration %}"
    "{% else %}{{ message['role'] }}:{{ message['content'] }}{% endif %}{% endfor %}"
)

OTHER_CALL = (
    "{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}[model]{% endif %}"
)
"""Calls for a turn otherwise than it renders one."""


def given(renderer: Renderer, template: str, **how: Any) -> Renderer:  # noqa: F811
    tokenizer = copy.deepcopy(renderer.tokenizer._tokenizer)
    tokenizer.chat_template = template
    return Renderer(tokenizer, renderer.ends, **how)


def test_template_text_after_a_turn_is_unlearned(renderer: Renderer) -> None:  # noqa: F811
    [text] = renderer.texts(chat("question", "answer"))
    said = renderer.tokenizer.decode(text.tokens.tolist())
    assert said.endswith("answer<|im_end|>\n")
    assert learned(renderer, chat("question", "answer")) == ["answer<|im_end|>"]


def test_tokens_are_those_of_the_tokenizer_itself(renderer: Renderer) -> None:  # noqa: F811
    row = chat("question one", "answer one", "tool:é ü 漢字", "question", "answer 漢字 two")
    [text] = renderer.texts(row)
    whole = renderer.tokenizer.apply_chat_template(row["messages"], return_dict=False)
    assert text.tokens.tolist() == list(whole)
    assert learned(renderer, row) == ["answer one<|im_end|>answer 漢字 two<|im_end|>"]


def test_rewriting_template_is_unrolled(renderer: Renderer) -> None:  # noqa: F811
    row = chat("q1", "<think>because</think>a1", "q2", "<think>so</think>a2")
    thinking = given(renderer, THINKING)
    assert learned(thinking, row) == ["<think>because</think>a1<|im_end|>", "<think>so</think>a2<|im_end|>"]
    second = thinking.tokenizer.decode(thinking.texts(row)[1].tokens.tolist())
    assert "because" not in second  # when it spoke the second time, the model did not see it
    assert len(given(renderer, THINKING).texts(chat("q1", "a1"))) == 1


def test_rewriting_template_may_be_an_error(renderer: Renderer) -> None:  # noqa: F811
    row = chat("q1", "<think>because</think>a1", "q2", "a2")
    with pytest.raises(TemplateError, match="rewrites earlier turns") as error:
        given(renderer, THINKING, rewritten="error").texts(row)
    assert "--rewritten unroll" in (error.value.hint or "")


def test_generation_marks_are_followed(renderer: Renderer) -> None:  # noqa: F811
    row = chat("question", "answer one", "question", "answer two")
    assert learned(given(renderer, MARKED), row) == ["answer one<|im_end|>answer two<|im_end|>"]


def weighed(*weights: float) -> dict[str, Any]:
    """Pairs of a question and an answer, each answer with its weight."""
    row = chat(*(turn for at in range(len(weights)) for turn in (f"q{at}", f"a{at}")))
    for weight, message in zip(weights, row["messages"][1::2], strict=True):
        message["weight"] = weight
    return row


@pytest.mark.parametrize("template", [None, THINKING, MARKED])
def test_turn_of_weight_0_is_unlearned(renderer: Renderer, template: str | None) -> None:  # noqa: F811
    one = given(renderer, template) if template else renderer
    assert "".join(learned(one, weighed(1, 0, 0.0, 1))) == "a0<|im_end|>a3<|im_end|>"
    assert learned(renderer, weighed(0, 1)) == learned(renderer, chat("q", "a1"))


def test_weight_0_applies_to_last_and_all(renderer: Renderer) -> None:  # noqa: F811
    last = Renderer(renderer.tokenizer, renderer.ends, "last")
    assert learned(last, weighed(1, 1, 0)) == ["a1<|im_end|>"]
    whole = Renderer(renderer.tokenizer, renderer.ends, "all")
    [said] = learned(whole, weighed(0, 1))
    assert "a0" not in said
    assert "q0" in said
    assert "a1" in said


TEXT = {"type": "text", "text": "ans"}

MANGLED: dict[str, dict[str, Any]] = {
    "number": {"content": 3},
    "object": {"content": {"a": 1}},
    "null": {"content": None},
    "nothing": {},
    "image": {"content": [TEXT, {"type": "image_url", "image_url": "x"}]},
    "part without text": {"content": [{"type": "text"}]},
    "part of a number": {"content": [{"type": "text", "text": 3}]},
    "texts without a type": {"content": ["ans"]},
    "role": {"content": "ans", "role": 3},
}


@pytest.mark.parametrize("case", MANGLED)
@pytest.mark.parametrize("at", [0, 1])
def test_non_text_content_is_dropped(
    renderer: Renderer,  # noqa: F811
    case: str,
    at: int,
) -> None:
    row = chat("q", "a")
    row["messages"][at] = {"role": row["messages"][at]["role"]} | MANGLED[case]
    rows = [chat("q", "a"), row]
    _, account = prepare_examples(rows, render_rows(rows, renderer), Training(max_seq_length=2048), "train.jsonl")
    assert account.dropped == {"bad_template": 1}


def test_parts_of_text_are_one_text(renderer: Renderer) -> None:  # noqa: F811
    row = chat("q", "a")
    row["messages"][1]["content"] = [TEXT, {"type": "text", "text": "wer"}]
    assert learned(renderer, row) == ["answer<|im_end|>"]


def test_a_prompt_and_a_completion_may_be_messages(renderer: Renderer) -> None:  # noqa: F811
    """As TRL has them: what the assistant said in the prompt is no part of the completion."""
    talk = chat("q1", "a1", "q2", "a2")["messages"]
    assert learned(renderer, {"prompt": talk[:3], "completion": talk[3:]}) == ["a2<|im_end|>"]
    mixed = [{"prompt": "q", "completion": talk[3:]}, {"prompt": talk[:3], "completion": "a"}, chat("q", "a")]
    odd = [{"prompt": "q", "completion": 3}, {"prompt": ["q"], "completion": ["a"]}]
    rows = mixed + odd
    _, account = prepare_examples(rows, render_rows(rows, renderer), Training(max_seq_length=2048), "train.jsonl")
    assert account.dropped == {"bad_template": 4}


@pytest.mark.parametrize("group", [[1], {"a": 1}, True])
def test_invalid_group_is_an_error(renderer: Renderer, group: Any) -> None:  # noqa: F811
    rows = [chat("q", "a"), chat("q", "a") | {"karl_fast": {"group": group}}]
    with pytest.raises(DataSetError, match=r"row 2 has the karl_fast\.group .*, wanted a text or a number"):
        prepare_examples(rows, render_rows(rows, renderer), Training(max_seq_length=2048), "train.jsonl")


GLUED = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""Nothing between turns, so that a token may hold the end of one and the beginning of the next."""


def glued(renderer: Renderer, train_on: Any, *roles: str) -> tuple[list[str], list[str]]:  # noqa: F811
    """The tokens of turns `xth`, `eth`, `exx` behind a question, and those learned: `th` and `e` are one."""
    tokenizer = copy.deepcopy(renderer.tokenizer._tokenizer)
    tokenizer.chat_template = GLUED
    tokenizer.add_tokens(["the"])
    turns = zip(("user", *roles), ("x", "xth", "eth", "exx"), strict=True)
    messages: list[dict[str, Any]] = [{"role": role, "content": text} for role, text in turns]
    messages = [one if one["role"] != "muted" else one | {"role": "assistant", "weight": 0} for one in messages]
    [text] = Renderer(tokenizer, renderer.ends, train_on).texts({"messages": messages})
    words = tokenizer.convert_ids_to_tokens(text.tokens.tolist())
    return words, [word for word, learned in zip(words, text.learned.tolist(), strict=True) if learned]


@pytest.mark.parametrize(
    ("train_on", "roles", "kept"),
    [
        ("all", ("user", "assistant", "user"), ["x", "x", "the", "the", "x", "x"]),
        ("all", ("user", "muted", "user"), ["x", "x", "x", "x"]),
        ("all", ("muted", "user", "assistant"), ["x", "the", "x", "x"]),
        ("all", ("user", "assistant", "muted"), ["x", "x", "the"]),
        ("assistant", ("user", "assistant", "user"), []),
        ("assistant", ("assistant", "user", "user"), ["x"]),
        ("assistant", ("user", "user", "assistant"), ["x", "x", "<|im_end|>"]),
    ],
)
def test_token_with_unlearned_text_is_unlearned(
    renderer: Renderer,  # noqa: F811
    train_on: Any,
    roles: tuple[str, ...],
    kept: list[str],
) -> None:
    words, found = glued(renderer, train_on, *roles)
    assert words[:6] == ["x", "x", "the", "the", "x", "x"]
    assert found == kept


def test_rows_without_learned_turns_are_dropped(renderer: Renderer) -> None:  # noqa: F811
    rows = [chat("q", "a"), weighed(0), weighed(0.5), weighed("1")]  # type: ignore[arg-type]
    _, account = prepare_examples(rows, render_rows(rows, renderer), Training(max_seq_length=2048), "train.jsonl")
    assert account.dropped == {"nothing_to_learn": 1, "bad_template": 2}


def test_turn_with_other_prompt_is_no_row(renderer: Renderer) -> None:  # noqa: F811
    odd, asked = given(renderer, OTHER_CALL), [chat("question", "answer")]
    with pytest.raises(NothingToTrainError, match="bad template 1"):
        prepare_examples(asked, render_rows(asked, odd), Training(max_seq_length=2048), "train.jsonl")


RAISES = (
    "{% for m in messages %}{% if m.role == 'wizard' %}{{ raise_exception('no wizards') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content + m.suffix.text if m.role == 'king' else m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Raises at one role of its own accord, and at another by an error of an expression."""


def test_template_errors_are_counted_by_message(renderer: Renderer) -> None:  # noqa: F811
    rows = [chat("q", "a") for _ in range(5)]
    for at, role in ((1, "wizard"), (2, "king"), (4, "wizard")):
        rows[at]["messages"].insert(0, {"role": role, "content": "x"})
    _, account = prepare_examples(
        rows, render_rows(rows, given(renderer, RAISES)), Training(max_seq_length=2048), "train.jsonl"
    )
    assert account.dropped == {"bad_template": 3}
    reasons = {reason.rpartition(": ")[2]: found for reason, found in account.bad_templates.items()}
    assert reasons == {"no wizards": (2, 2), "'dict object' has no attribute 'suffix'": (1, 3)}
    [first, second] = account.remarks("train")
    assert first.startswith("train: bad template in 2 rows, the first is row 2: ")
    assert second.startswith("train: bad template in 1 row, the first is row 3: ")


CLOSED_BY_THE_NEXT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The marker of the next role is all that ends a turn, as with GLM."""


def test_stopping_role_marker_is_learned(renderer: Renderer) -> None:  # noqa: F811
    closed = given(renderer, CLOSED_BY_THE_NEXT)
    start = closed.tokenizer.convert_tokens_to_ids("<|im_start|>")
    stops = Renderer(closed.tokenizer, frozenset([start]))
    assert learned(stops, chat("q", "a", "r", "b")) == ["a<|im_start|>b<|im_start|>"]
    rows = [chat("q", "a", "r", "b")]
    assert learned(closed, rows[0]) == ["ab<|im_end|>"]  # nothing of the template stops: the last turn is ended
    _, account = prepare_examples(rows, render_rows(rows, closed), Training(max_seq_length=2048), "train.jsonl")
    assert account.endless == 1
    assert "1 learned turn without a token at the end that stops generation" in " ".join(account.remarks("train"))


EMPTY = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}<think></think>{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
"""Thoughts that are empty in a turn, and open in the generation prompt, as with Nemotron 3."""


def test_empty_thoughts_of_the_template_are_not_learned(renderer: Renderer) -> None:  # noqa: F811
    assert learned(given(renderer, EMPTY), chat("q", "a", "r", "b")) == ["a<|im_end|>b<|im_end|>"]
    always = EMPTY.replace("assistant\n<think>\n", "assistant\n")
    assert learned(given(renderer, always), chat("q", "a")) == ["a<|im_end|>"]


def test_generation_prompt_may_differ_in_space(renderer: Renderer) -> None:  # noqa: F811
    spaced = EMPTY.replace("<think></think>", "").replace("assistant\n<think>\n", " assistant\n\n")
    assert learned(given(renderer, spaced), chat("q", "a", "r", "b")) == ["a<|im_end|>b<|im_end|>"]
    lone = EMPTY.replace("<think></think>", "</think>").replace("assistant\n<think>\n", "assistant\n")
    assert learned(given(renderer, lone), chat("q", "a")) == ["a<|im_end|>"]
    words = EMPTY.replace("<think></think>", " ").replace("assistant\n<think>\n", "assistant\n")
    assert learned(given(renderer, words), chat("q", "a")) == [" a<|im_end|>"]  # the model writes the space itself


SYSTEM_LATE = (
    "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>{% if loop.last and messages[0].role == 'system' %}"
    "{{ messages[0].content }} {% endif %}{{ m.content }}<|im_end|>{% elif m.role == 'assistant' %}{{ m.content }}"
    "<|im_end|>{% endif %}{% endfor %}"
)
"""The system prompt stands before the last user alone, as with Mistral."""


def test_lost_system_prompt_is_kept_per_turn(renderer: Renderer) -> None:  # noqa: F811
    row = chat("q", "a", "r", "b")
    row["messages"].insert(0, {"role": "system", "content": "kind"})
    texts = given(renderer, SYSTEM_LATE).texts(row)
    wholes = [renderer.tokenizer.decode(text.tokens.tolist()) for text in texts]
    assert [whole.split("<|im_start|>")[-1] for whole in wholes] == [
        "kind q<|im_end|>a<|im_end|>",
        "kind r<|im_end|>b<|im_end|>",
    ]
    assert learned(given(renderer, SYSTEM_LATE), row) == ["a<|im_end|>", "b<|im_end|>"]


def test_the_assistant_may_speak_first(renderer: Renderer) -> None:  # noqa: F811
    row = chat("x", "hello", "q", "a")
    row["messages"] = row["messages"][1:]
    assert learned(renderer, row) == ["hello<|im_end|>a<|im_end|>"]
    asks = (
        "{% if messages[0].role == 'assistant' and messages | length == 1 %}{{ raise_exception('no user') }}{% endif %}"
    )
    assert learned(given(renderer, asks + EMPTY), row) == ["hello<|im_end|>a<|im_end|>"]


DROPS_RESULTS = (
    "{% for m in messages if m.role != 'tool' %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_unshown_calls_become_text_or_are_dropped(renderer: Renderer) -> None:  # noqa: F811
    row = chat("q", "a", "tool:seen", "r", "b")
    function = {"name": "ls", "arguments": '{"n": 1}'}
    row["messages"][1]["tool_calls"] = [{"type": "function", "function": function}]
    found = given(renderer, DROPS_RESULTS).rendering(row)
    assert found.calls_as_text
    whole = renderer.tokenizer.decode(found.texts[0].tokens.tolist())
    assert "<tool_response>\nseen\n</tool_response>\n\nr<|im_end|>" in whole
    wanted = 'a\n<tool_call>\n{"name": "ls", "arguments": {"n": 1}}\n</tool_call><|im_end|>b<|im_end|>'
    assert learned(given(renderer, DROPS_RESULTS), row) == [wanted]
    assert learned(Renderer(renderer.tokenizer, renderer.ends, tool_format="text"), row) == [wanted]
    with pytest.raises(TemplateError, match="the chat template leaves out results of tools"):
        given(renderer, DROPS_RESULTS, tool_format="template").rendering(row)


WITH_TOOLS = "{% for t in tools or [] %}{{ t.function.name + ': ' + t.function.description }} {% endfor %}" + EMPTY


@pytest.mark.parametrize(
    ("tools", "shown"),
    [
        ([{"type": "function", "function": {"name": "ls", "description": "Lists."}}], "ls: Lists. "),
        ([{"name": "ls", "description": "Lists."}], "ls: Lists. "),
        ('[{"name": "ls", "description": "Lists."}]', "ls: Lists. "),
        ([], "<|im_start|>"),
        ("", "<|im_start|>"),
    ],
)
def test_definitions_of_tools_have_one_form(renderer: Renderer, tools: Any, shown: str) -> None:  # noqa: F811
    [text] = given(renderer, WITH_TOOLS).texts(chat("q", "a") | {"tools": tools})
    assert renderer.tokenizer.decode(text.tokens.tolist()).startswith(shown)


@pytest.mark.parametrize("tools", [5, "[broken", {"name": "ls"}, ["ls"], [{"description": "x"}], [None]])
def test_tools_that_cannot_be_read_drop_their_row(renderer: Renderer, tools: Any) -> None:  # noqa: F811
    with pytest.raises(TemplateError, match=r"tools? of a row (are|is) .*, wanted"):
        renderer.texts(chat("q", "a") | {"tools": tools})


SHORT_IDS = (
    "{% for m in messages %}{% if m.role == 'tool' %}[{{ m.tool_call_id }}] {{ m.content }}"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}"
    "{% if c.id | length != 9 %}{{ raise_exception('ids have nine letters') }}{% endif %}"
    "[{{ c.id }}] {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Ids of nine letters and digits alone, as with Mistral."""


def test_call_ids_are_shortened_for_the_template(renderer: Renderer) -> None:  # noqa: F811
    row = chat("q", "a", "tool:seen", "r", "b")
    row["messages"][1]["tool_calls"] = [{"id": "toolu_01A", "function": {"name": "ls", "arguments": {}}}]
    row["messages"][1]["tool_calls"][0]["id"] = row["messages"][2]["tool_call_id"] = "toolu_01AbCdEf"
    [text] = given(renderer, SHORT_IDS, tool_format="template").texts(row)
    whole = renderer.tokenizer.decode(text.tokens.tolist())
    id = whole.partition("[")[2][:9]
    assert whole.count(f"[{id}] ") == 2
    assert "toolu" not in whole


PARTS_ALONE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for part in m.content %}{{ part.text }}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Content as a list of parts alone, as with Idefics and LLaVA."""


def test_content_in_parts_where_the_template_needs(renderer: Renderer) -> None:  # noqa: F811
    assert learned(given(renderer, PARTS_ALONE), chat("q", "a", "r", "b")) == ["a<|im_end|>b<|im_end|>"]


def test_completion_is_one_turn_text_learned_whole(renderer: Renderer) -> None:  # noqa: F811
    assert learned(renderer, {"prompt": "question", "completion": "answer"}) == ["answer<|im_end|>"]
    assert learned(renderer, {"text": "answer"}) == ["answer<|im_end|>"]
    assert learned(renderer, {"text": "answer<|im_end|>"}) == ["answer<|im_end|>"]


def test_all_is_every_token(renderer: Renderer) -> None:  # noqa: F811
    [text] = Renderer(renderer.tokenizer, renderer.ends, "all").texts(chat("question", "answer"))
    assert text.learned.all()


def test_rows_that_are_no_rows_are_counted(renderer: Renderer) -> None:  # noqa: F811
    rows = [chat("q", "a"), {"nothing": 1}, {"messages": []}, {"messages": [{"role": "user", "content": "q"}]}]
    found, account = prepare_examples(rows, render_rows(rows, renderer), Training(max_seq_length=2048), "train.jsonl")
    assert len(found) == account.kept == 1
    assert account.rows == account.kept + sum(account.dropped.values())


@pytest.mark.parametrize("length", [10, 17, 40, 41, 100, 200])
def test_windows_learn_every_token_once(length: int) -> None:
    text = Text(np.arange(length, dtype=np.int32), np.arange(length) % 3 == 1)
    parts = fit_text(text, 40, "window").parts
    assert all(len(part.tokens) <= 40 for part in parts)
    seen = [token for part in parts for token in part.tokens[part.learned].tolist()]
    assert sorted(seen) == [token for token in range(length) if token % 3 == 1]
    for part in parts[1:]:
        assert np.flatnonzero(part.learned)[0] >= 20 - 2


def test_too_long_row_may_be_an_error(tiny_model: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "data", [chat("q", "a"), chat("long " * 200, "a")])
    with pytest.raises(NothingToTrainError, match=r"train.jsonl, row 2 has 1,014 tokens, and max_seq_length is 64"):
        train(data, tiny_model, tmp_path / "a", Training(overlong="error", max_seq_length=64))
    assert not (tmp_path / "a").exists()
