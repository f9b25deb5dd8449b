"""A Modelfile for Ollama: the weights, the chat template in Ollama's language, and what ends an answer.

Ollama has a language of its own for templates. One is derived from what the model's template writes around the words of
a system prompt, a user and an answer, and it is used only where it gives the same text as the model's own on
conversations of two turns, with a system prompt and without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from karl_fast.model_export.adapter import Adapter

SYSTEM, USER, ANSWER, AGAIN = "karlsystemx", "karluserx", "karlanswerx", "karlagainx"
"""Words of conversations that show what a template writes around them."""


@dataclass(frozen=True)
class Frame:
    """Texts that a template writes around words.

    Attributes:
        system: in front of a system prompt, and between it and the user's words; None if the template has no such.
        user: in front of a user's words.
        answer: between these and an answer.
        end: behind an answer.
    """

    system: tuple[str, str] | None
    user: str
    answer: str
    end: str

    def render(self, system: str | None, turns: list[tuple[str, str | None]]) -> str:
        """Return a conversation as Ollama renders it; the last turn has no answer yet."""
        text = ""
        for number, (words, answer) in enumerate(turns):
            first = self.system if number == 0 and system is not None else None
            text += self.user if first is None else first[0] + (system or "") + first[1]
            text += words + self.answer + ("" if answer is None else answer + self.end)
        return text

    def template(self) -> str:
        """Return the template in Ollama's language."""
        opening = self.user
        if self.system is not None:
            before, between = self.system
            opening = f"{{{{ if .System }}}}{before}{{{{ .System }}}}{between}{{{{ else }}}}{self.user}{{{{ end }}}}"
        return f"{opening}{{{{ .Prompt }}}}{self.answer}{{{{ .Response }}}}{self.end}"


def write_modelfile(adapter: Adapter, folder: Path, weights: str) -> list[str]:
    """Write a Modelfile beside a file of weights; return remarks."""
    loaded, remarks = adapter.loaded, []
    lines = [f"FROM ./{weights}"]
    if not getattr(loaded.tokenizer, "chat_template", None):
        remarks.append("the model has no chat template: Ollama passes a prompt on as it is")
        lines.append('TEMPLATE """{{ .Prompt }}"""')
    elif (frame := find_frame(loaded.tokenizer)) is not None:
        lines.append(f'TEMPLATE """{frame.template()}"""')
    else:
        remarks.append("the chat template cannot be written in Ollama's language: Ollama looks for one like it itself")
    for number in sorted(loaded.ends):
        lines.append(f'PARAMETER stop "{loaded.tokenizer.convert_ids_to_tokens(number)}"')
    (folder / "Modelfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return remarks


def find_frame(tokenizer: Any) -> Frame | None:
    """Return what a template writes around words; None if that is not all that it does."""
    plain = _rendered(tokenizer, None, [(USER, ANSWER), (AGAIN, None)])
    pieces = None if plain is None else _between(plain, [USER, ANSWER, AGAIN])
    if pieces is None:
        return None
    user, answer, middle, last = pieces
    if answer != last or not middle.endswith(user):
        return None
    frame = Frame(None, user, answer, middle[: len(middle) - len(user)])
    with_system = _rendered(tokenizer, SYSTEM, [(USER, ANSWER), (AGAIN, None)])
    if with_system is not None and SYSTEM in with_system:
        parts = _between(with_system, [SYSTEM, USER])
        if parts is None:
            return None
        frame = Frame((parts[0], parts[1]), user, answer, frame.end)
    texts = [user, answer, frame.end, *(frame.system or ())]
    if any(mark in text for text in texts for mark in ("{{", "}}", '"""')) or not _agrees(tokenizer, frame):
        return None
    return frame


def _agrees(tokenizer: Any, frame: Frame) -> bool:
    """Return whether a frame gives what the template gives."""
    conversations: list[list[tuple[str, str | None]]] = [
        [(USER, None)],
        [(USER, ANSWER), (AGAIN, None)],
        [("1 2", "3"), ("4", "5\n6"), ("7", None)],
    ]
    for system in [None] if frame.system is None else [None, SYSTEM]:
        for turns in conversations:
            if _rendered(tokenizer, system, turns) != frame.render(system, turns):
                return False
    return True


def _rendered(tokenizer: Any, system: str | None, turns: list[tuple[str, str | None]]) -> str | None:
    """Return a conversation without the token of its beginning, which llama.cpp adds; None if the template fails."""
    messages = [] if system is None else [{"role": "system", "content": system}]
    for words, answer in turns:
        messages.append({"role": "user", "content": words})
        messages += [] if answer is None else [{"role": "assistant", "content": answer}]
    try:
        text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except Exception:  # of the template's own: it has no system prompt, for example
        return None
    bos = tokenizer.bos_token
    return text.removeprefix(bos) if bos and tokenizer.encode("a")[:1] == [tokenizer.bos_token_id] else text


def _between(text: str, words: list[str]) -> list[str] | None:
    """Return what is before, between and behind words; None if they do not stand in this order, each once."""
    pieces, rest = [], text
    for word in words:
        before, mark, rest = rest.partition(word)
        if not mark or word in rest:
            return None
        pieces.append(before)
    return [*pieces, rest]
