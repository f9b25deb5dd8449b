# ruff: noqa: RUF001  (the bars of DeepSeek's tokens)
"""What is learned under the chat templates of 25 models, as they ship them: what the model generates, and no more."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("tokenizers")

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from karl_fast.errors import TemplateError
from karl_fast.train.chat_template import Renderer, Rendering

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(os.environ.get("KARL_FAST_TEST_DATA", "missing")) / "data" / "chat-templates"

SPECIAL = re.compile(
    r"<[|｜][^<>'\"{} \n]*[|｜]>|</?[a-z]+(?:_of_turn|_of_image|_of_utterance)>|</?think>|\[/?[A-Z_]+\]|<sop>|</s>"
)
"""Tokens beyond the vocabulary: those of roles and turns."""

Call = tuple[str, dict[str, Any]]


def tokenizer(template: str, ends: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """Make a tokenizer with a token a byte, and those that a template names."""
    alphabet = {letter: at for at, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    words = {*SPECIAL.findall(template), *ends, "<bos>"}
    made.add_special_tokens([AddedToken(word, special=True) for word in sorted(words)])
    found = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<bos>", eos_token=ends[-1])
    found.chat_template = template
    return found


def as_text(content: str, calls: list[Call]) -> str:
    """The documented plain form of calls."""
    objects = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls]
    return "\n".join([content] * bool(content) + [f"<tool_call>\n{one}\n</tool_call>" for one in objects])


def hermes(content: str, calls: list[Call]) -> str:
    return as_text(content, calls)


def xml(between: str, behind: str, content: str, calls: list[Call]) -> str:
    """Calls of Qwen3.5 and Nemotron 3."""
    said = []
    for name, arguments in calls:
        values = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
        said.append(f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>")
    return content + between + "\n".join(said) + behind


def qwen_xml(content: str, calls: list[Call]) -> str:
    return xml("\n\n" if content else "", "", content, calls)


def nemotron(content: str, calls: list[Call]) -> str:
    return xml("\n", "\n", content, calls)


def glm(content: str, calls: list[Call]) -> str:
    said = f"\n{content}" if content else ""
    for name, arguments in calls:
        pairs = [f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments.items()]
        said += f"\n<tool_call>{name}\n" + "".join(pairs) + "</tool_call>"
    return said


def deepseek(content: str, calls: list[Call]) -> str:
    said = [
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{json.dumps(arguments)}\n```<｜tool▁call▁end｜>"
        for name, arguments in calls
    ]
    return f"{content}<｜tool▁calls▁begin｜>" + "\n".join(said) + "<｜tool▁calls▁end｜>"


def python(content: str, calls: list[Call]) -> str:
    said = [f"{name}({', '.join(f'{key}={value!r}' for key, value in of.items())})" for name, of in calls]
    return f"{content}<|tool_call_start|>[{', '.join(said)}]<|tool_call_end|>"


def llama(content: str, calls: list[Call]) -> str | None:
    """Llama 3.1 has one call in a turn, without words."""
    [(name, arguments), *more] = calls
    return None if more or content else f'{{"name": "{name}", "parameters": {json.dumps(arguments)}}}'


def harmony(content: str, calls: list[Call]) -> str | None:
    [(name, arguments), *more] = calls
    before = f"<|channel|>analysis<|message|>{content}<|end|><|start|>assistant" if content else ""
    call = f" to=functions.{name}<|channel|>commentary json<|message|>{json.dumps(arguments)}"
    return None if more else before + call


@dataclass(frozen=True)
class Model:
    """How a model writes.

    Attributes:
        ends: the tokens that end a turn, of its generation settings.
        stop: what it writes at the end of a turn.
        calls: how it writes calls; None where the template has none, or not those.
        called: what it writes at the end of a turn with calls; None for the same.
        thoughts: what it writes around thoughts; None where the template has none.
        begin: what it writes at the beginning of a turn without thoughts.
        refuses: cases that the template raises at.
    """

    ends: tuple[str, ...]
    stop: str
    calls: Callable[[str, list[Call]], str | None] | None = None
    called: str | None = None
    thoughts: tuple[str, str] | None = None
    begin: str = ""
    refuses: tuple[str, ...] = ()

    def turn(self, content: str) -> str:
        return self.begin + content + self.stop

    def thought(self, thoughts: str, content: str) -> str:
        before, behind = self.thoughts or ("", "")
        return f"{before}{thoughts}{behind}{content}{self.stop}" if self.thoughts else self.turn(content)

    def call(self, content: str, *calls: Call) -> str:
        said = self.calls(content, list(calls)) if self.calls else None
        return self.turn(as_text(content, list(calls))) if said is None else said + (self.called or self.stop)

    def call_in_a_row(self, call: Call) -> str:
        """A call behind a call: DeepSeek's template writes the second without a header, so both are text."""
        return self.turn(as_text("", [call])) if self.calls is deepseek else self.call("", call)


IM, EOT, TURN = ("<|im_end|>", "<|endoftext|>"), ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"), "<end_of_turn>"
THINK = ("<think>\n", "\n</think>\n\n")
OPEN = ("", "\n</think>\n\n")
IN_A_ROW = (
    "two turns in a row",
    "two turns in a row before a user",
    "two turns in a row behind a user",
    "two turns in a row behind a call",
    "words before a call",
    "two calls in a row",
    "thoughts in a row",
    "thoughts before none",
    "thoughts behind none",
    "thoughts, then a call",
)
GREETING = ("greeting", *IN_A_ROW)
QWEN35 = Model(IM, IM[0], qwen_xml, thoughts=OPEN)
NEMOTRON = Model(IM, IM[0], nemotron, thoughts=("", "\n</think>\n"))
PHI = Model(("<|end|>", "<|assistant|>", "<|endoftext|>"), "<|end|>")

MODELS = {
    "cohere": Model(("<|END_OF_TURN_TOKEN|>",), "<|END_OF_TURN_TOKEN|>", refuses=GREETING),
    "cohere2": Model(("<|END_OF_TURN_TOKEN|>",), "<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", refuses=GREETING),
    "deepseekv3": Model(("<｜end▁of▁sentence｜>",), "<｜end▁of▁sentence｜>", deepseek),
    "gemma": Model((TURN, "<eos>"), TURN, refuses=("system", *GREETING)),
    "gemma3": Model((TURN, "<eos>"), TURN, refuses=GREETING),
    "glm4moe": Model(
        ("<|endoftext|>", "<|user|>", "<|observation|>"),
        "<|user|>",
        glm,
        "<|observation|>",
        ("\n<think>", "</think>\n"),
        "\n",
    ),
    "gptoss": Model(
        ("<|return|>", "<|call|>", "<|endoftext|>"),
        "<|return|>",
        harmony,
        "<|call|>",
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        "<|channel|>final<|message|>",
    ),
    "lfm2": Model(IM, IM[0]),
    "lfm2_2_5": Model(IM, IM[0], python, thoughts=("<think>", "</think>")),
    "llama3": Model(EOT, EOT[0]),
    "llama3_1": Model(EOT, EOT[0], llama),
    "llama3_2": Model(EOT, EOT[0], llama),
    "nemotron_3_nano": NEMOTRON,
    "nemotron_3_super": NEMOTRON,
    "nemotron_3_ultra": Model(IM, IM[0], nemotron, thoughts=("", "</think>")),
    "phi3": PHI,
    "phi3_5": PHI,
    "qwen2_5": Model(IM, IM[0], hermes),
    "qwen2_5_vl": Model(IM, IM[0]),
    "qwen3": Model(IM, IM[0], hermes, thoughts=THINK),
    "qwen3_5_nothink": QWEN35,
    "qwen3_5_think": QWEN35,
    "qwen3_6": QWEN35,
    "qwen3_instruct_2507": Model(IM, IM[0], hermes),
    "qwen3_vl": Model(IM, IM[0], hermes),
}


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def model(content: str | None, *calls: Call, text: bool = False, **more: Any) -> dict[str, Any]:
    """A turn of the model, with calls as `convert` writes them, or with arguments as text, as OpenAI has them."""
    made: list[dict[str, Any]] = []
    for at, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments) if text else arguments}
        made.append({"id": f"call_{at}", "type": "function", "function": function})
    return {"role": "assistant", "content": content} | ({"tool_calls": made} if made else {}) | more


def result(content: str, at: int = 0, name: str = "ls") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{at}", "name": name, "content": content}


LS: Call = ("ls", {"path": "/"})
PWD: Call = ("pwd", {})
DONE = [result("a.txt"), model("It is a.txt.")]

Case = tuple[list[dict[str, Any]], "Callable[[Model], list[str]]"]

CASES: dict[str, Case] = {
    "plain": (
        [user("Hi"), model("Hello there."), user("And?"), model("Fine.")],
        lambda one: [one.turn("Hello there."), one.turn("Fine.")],
    ),
    "system": (
        [{"role": "system", "content": "Be kind."}, user("Hi"), model("Hello.")],
        lambda one: [one.turn("Hello.")],
    ),
    "greeting": (
        [model("How can I help?"), user("Hi"), model("Hello.")],
        lambda one: [one.turn("How can I help?"), one.turn("Hello.")],
    ),
    "call": (
        [user("List"), model("", LS), *DONE],
        lambda one: [one.call("", LS), one.turn("It is a.txt.")],
    ),
    "arguments as text": (
        [user("List"), model(None, LS, text=True), *DONE],
        lambda one: [one.call("", LS), one.turn("It is a.txt.")],
    ),
    "words and a call": (
        [user("List"), model("I look.", LS), *DONE],
        lambda one: [one.call("I look.", LS), one.turn("It is a.txt.")],
    ),
    "two calls": (
        [user("List"), model("", LS, PWD), result("a.txt"), result("/", 1, "pwd"), model("It is a.txt.")],
        lambda one: [one.call("", LS, PWD), one.turn("It is a.txt.")],
    ),
    "thoughts": (
        [user("Hi"), model("Yes.", reasoning_content="Hm."), user("And?"), model("No.", reasoning_content="So.")],
        lambda one: [one.thought("Hm.", "Yes."), one.thought("So.", "No.")],
    ),
    "two turns in a row": (
        [user("Hi"), model("Hello."), model("More."), model("End.")],
        lambda one: [one.turn("Hello."), one.turn("More."), one.turn("End.")],
    ),
    "two turns in a row before a user": (
        [user("Hi"), model("Hello."), model("More."), user("And?"), model("Fine.")],
        lambda one: [one.turn("Hello."), one.turn("More."), one.turn("Fine.")],
    ),
    "two turns in a row behind a user": (
        [user("Hi"), model("Hello."), user("And?"), model("More."), model("Fine.")],
        lambda one: [one.turn("Hello."), one.turn("More."), one.turn("Fine.")],
    ),
    "two turns in a row behind a call": (
        [user("List"), model("", LS), *DONE, model("More.")],
        lambda one: [one.call("", LS), one.turn("It is a.txt."), one.turn("More.")],
    ),
    "words before a call": (
        [user("List"), model("I look."), model("", LS), *DONE],
        lambda one: [one.turn("I look."), one.call("", LS), one.turn("It is a.txt.")],
    ),
    "two calls in a row": (
        [user("List"), model("", LS), model("", PWD), result("a.txt"), result("/", 1, "pwd"), model("It is a.txt.")],
        lambda one: [one.call_in_a_row(LS), one.call_in_a_row(PWD), one.turn("It is a.txt.")],
    ),
    "thoughts in a row": (
        [user("Hi"), model("Yes.", reasoning_content="Hm."), model("No.", reasoning_content="So.")],
        lambda one: [one.thought("Hm.", "Yes."), one.thought("So.", "No.")],
    ),
    "thoughts before none": (
        [user("Hi"), model("Yes.", reasoning_content="Hm."), model("No.")],
        lambda one: [one.thought("Hm.", "Yes."), one.turn("No.")],
    ),
    "thoughts behind none": (
        [user("Hi"), model("Yes."), model("No.", reasoning_content="So.")],
        lambda one: [one.turn("Yes."), one.thought("So.", "No.")],
    ),
    "thoughts, then a call": (
        [
            user("Hi"),
            model("Yes.", reasoning_content="Hm."),
            model("", LS),
            result("a.txt"),
            model("No.", reasoning_content="So."),
        ],
        lambda one: [one.thought("Hm.", "Yes."), one.call("", LS), one.thought("So.", "No.")],
    ),
}


def source(name: str) -> str:
    return (DATA / f"{name}.jinja").read_text("utf-8")


def rendered(name: str, messages: list[dict[str, Any]], **row: Any) -> tuple[list[str], Rendering, str]:
    """Return the stretches of a row that are learned, how it was rendered, and all its text."""
    return rendered_by(source(name), MODELS[name].ends, messages, **row)


def rendered_by(
    template: str, stops: tuple[str, ...], messages: list[dict[str, Any]], **row: Any
) -> tuple[list[str], Rendering, str]:
    made = tokenizer(template, stops)
    ends = frozenset(made.convert_tokens_to_ids(list(stops)))
    rendering = Renderer(made, ends).rendering({"messages": messages} | row)
    said, whole = [], ""
    for text in rendering.texts:
        starts = [at for at, on in enumerate(text.learned) if on and (at == 0 or not text.learned[at - 1])]
        for start in starts:
            stop = next((at for at in range(start, len(text.tokens)) if not text.learned[at]), len(text.tokens))
            said.append(made.decode(text.tokens[start:stop].tolist()))
        whole += made.decode(text.tokens.tolist())
    return said, rendering, whole


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the chat templates of KARL_FAST_TEST_DATA")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", MODELS)
def test_generated_and_stopping_tokens_are_learned(name: str, case: str) -> None:
    messages, expected = CASES[case]
    one = MODELS[name]
    if case in one.refuses:
        with pytest.raises(TemplateError, match=r"the chat template cannot take a row: (Conver|System)"):
            rendered(name, messages)
        return
    said, rendering, whole = rendered(name, messages)
    assert said == expected(one)
    assert rendering.endless == 0
    thoughts = sum("reasoning_content" in message for message in messages)
    assert rendering.thoughtless == (thoughts if one.thoughts is None else 0)
    texts = [message["content"] for message in messages if message["role"] != "assistant"]
    assert all(text in whole for text in texts)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the chat templates of KARL_FAST_TEST_DATA")
@pytest.mark.parametrize("case", IN_A_ROW)
def test_consecutive_turns_with_opened_thoughts_are_learned(case: str) -> None:
    """Qwen3's models that always think open the thoughts in the generation prompt, and have no switch."""
    body, _, _ = source("qwen3").partition("{%- if add_generation_prompt %}")
    template = body + r"{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}"
    messages, expected = CASES[case]
    said, rendering, _ = rendered_by(template, IM, messages)
    assert said == [text.removeprefix("<think>\n") for text in expected(MODELS["qwen3"])]
    assert rendering.endless == 0


THOUGHT = "<think>\nHm.\n</think>\n\n"


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the chat templates of KARL_FAST_TEST_DATA")
@pytest.mark.parametrize("name", MODELS)
def test_thoughts_in_the_content_are_learned_or_counted(name: str) -> None:
    said, rendering, _ = rendered(name, [user("Hi"), model(f"{THOUGHT}Yes."), user("And?"), model(f"{THOUGHT}No.")])
    lost = name == "deepseekv3"
    assert [text.count("Hm.") for text in said] == ([0, 0] if lost else [1, 1])
    assert rendering.thoughtless == (2 if lost else 0)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the chat templates of KARL_FAST_TEST_DATA")
@pytest.mark.parametrize(
    ("content", "count"),
    [
        ("<think>a</think>b<think>c</think>d", 1),
        ("<think>a</think>b<think>c", 1),
        ("a</think>d", 1),
        ("<think>\n\n</think>\n\nd", 0),
        ("<think>d", 0),
    ],
)
def test_deepseek_cuts_are_counted_per_turn(content: str, count: int) -> None:
    _, rendering, _ = rendered("deepseekv3", [user("Hi"), model(content)])
    assert rendering.thoughtless == count
    _, rendering, _ = rendered("deepseekv3", [user("Hi"), model(content, reasoning_content="Hm.")])
    assert rendering.thoughtless == 1


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the chat templates of KARL_FAST_TEST_DATA")
@pytest.mark.parametrize("name", MODELS)
def test_thoughts_with_a_call_are_learned(name: str) -> None:
    said, rendering, _ = rendered(name, [user("List"), model(THOUGHT, LS), *DONE])
    assert "Hm." in said[0]
    assert rendering.thoughtless == 0


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the chat templates of KARL_FAST_TEST_DATA")
def test_all_templates_are_in_the_table() -> None:
    assert sorted(MODELS) == sorted(path.stem for path in DATA.glob("*.jinja"))


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the chat templates of KARL_FAST_TEST_DATA")
@pytest.mark.parametrize("name", MODELS)
def test_definitions_of_tools_are_never_left_out(name: str) -> None:
    function = {"name": "ls", "description": "Lists.", "parameters": {"type": "object", "properties": {}}}
    _, rendering, whole = rendered(name, CASES["call"][0], tools=[{"type": "function", "function": function}])
    assert "Lists." in whole
    assert rendering.tools_as_text == ("<tools>\n{" in whole and "A call is written as" in whole)


RAISES = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
    "{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}{% for k, v in c.function.arguments | items %}"
    "{{ c.function.name }} {{ k }} {{ v }}{% endfor %}{% endfor %}</s>{% endfor %}"
)
"""Raises at a system prompt, and at arguments that are a text."""


def test_sample_counts_rows_its_template_fails_on(tmp_path: Path) -> None:
    import karl_fast

    tokenizer(RAISES, ("</s>",)).save_pretrained(tmp_path / "model")
    rows = [[user(f"q{at}"), model(None, LS, text=True), *DONE] for at in range(4)]
    for at in (1, 3):
        rows[at].insert(0, {"role": "system", "content": "x"})
    lines = [json.dumps({"id": f"r{at}", "reward": 1.0, "messages": row}) for at, row in enumerate(rows)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    how: dict[str, Any] = {"sampler": "all", "max_tokens": 500, "tokenizer": str(tmp_path / "model")}
    manifest = karl_fast.sample(tmp_path / "log.jsonl", tmp_path / "out", split=(1.0, 0.0, 0.0), **how).manifest
    assert manifest["draw"]["failed"] == {"bad_template": 2}
    [reason] = manifest["run"]["bad_templates"]
    assert reason == "bad template in 2 rows, the first is r1: the chat template cannot take a row: no system here"
