"""The tokens of a model as llama.cpp reads them, from the file of `tokenizers` that every model of mlx-lm has.

| kind | how it is known | what llama.cpp needs |
|---|---|---|
| ``gpt2`` | bytes as letters (byte-level BPE) | merges, and a name for the rule that cuts texts into words |
| ``llama`` | ``▁`` for spaces, bytes as tokens (SentencePiece BPE) | scores: the earlier a merge, the higher |
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karl_fast.errors import ModelError

if TYPE_CHECKING:
    from karl_fast.model_export.adapter import Adapter

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Patterns that cut a text into words, but for the length of numbers."""

RULES = {WORDS % "": "qwen2", WORDS % "{1,3}": "llama-bpe"}
"""Names that llama.cpp has for such rules."""

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Types of tokens in GGUF."""

CONVERTER = "karl-fast export --to mlx -o FOLDER, then llama.cpp's python convert_hf_to_gguf.py FOLDER"


@dataclass(frozen=True)
class Vocabulary:
    """Tokens of a model.

    Attributes:
        kind: gpt2 or llama.
        rule: name of the rule that cuts texts into words.
        tokens: texts, by number.
        types: types, by number.
        scores: scores, by number; empty for gpt2.
        merges: for gpt2, each ``left right``.
        numbers: of special tokens, by their names in GGUF.
        add_bos: True if a text begins with the token for its beginning.
        add_space: True if a space is put in front of a text.
    """

    kind: str
    rule: str
    tokens: list[str]
    types: list[int]
    scores: list[float] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    add_bos: bool = False
    add_space: bool = False

    def add_to(self, writer: Any) -> None:
        """Add the tokens to a file."""
        writer.add_tokenizer_model(self.kind)
        writer.add_tokenizer_pre(self.rule)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        if self.scores:
            writer.add_token_scores(self.scores)
        if self.merges:
            writer.add_token_merges(self.merges)
        for name, number in self.numbers.items():
            getattr(writer, f"add_{name}_token_id")(number)
        writer.add_add_bos_token(self.add_bos)
        if self.kind == "llama":
            writer.add_add_space_prefix(self.add_space)


def read_vocabulary(adapter: Adapter) -> Vocabulary:
    """Read the tokens of a model.

    Raises:
        ModelError: llama.cpp has no such tokenizer, or none of that name.
    """
    tokenizer: Any = adapter.loaded.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    form = json.loads(backend.to_str()) if backend is not None else {}
    model = form.get("model") or {}
    if model.get("type") != "BPE":
        raise _error(adapter, f"its tokenizer is {model.get('type') or 'not of the library tokenizers'}, wanted BPE")
    tokens, types = _tokens(model, form.get("added_tokens", []), int(adapter.loaded.config["vocab_size"]))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    known = {"bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id, "pad": tokenizer.pad_token_id}
    numbers = {name: int(number) for name, number in known.items() if number is not None}
    begins = tokenizer.encode("a")[:1] == [tokenizer.bos_token_id]
    if model.get("byte_fallback"):
        for number, text in enumerate(tokens):
            if types[number] == NORMAL and text == model.get("unk_token"):
                types[number], numbers["unk"] = UNKNOWN, number
        scores = _scores(tokens, types, merges)
        space = "Prepend" in json.dumps(form.get("normalizer")) or "Metaspace" in json.dumps(form.get("pre_tokenizer"))
        return Vocabulary("llama", "default", tokens, types, scores, [], numbers, begins, space)
    rule = _rule(form.get("pre_tokenizer") or {})
    if rule is None:
        raise _error(adapter, "its tokenizer cuts texts into words by a rule that is not known here")
    return Vocabulary("gpt2", rule, tokens, types, [], merges, numbers, begins)


def _error(adapter: Adapter, problem: str) -> ModelError:
    return ModelError(f"{adapter.model} cannot be written as GGUF: {problem}", hint=CONVERTER)


def _tokens(model: dict[str, Any], added: list[dict[str, Any]], size: int) -> tuple[list[str], list[int]]:
    """Return the texts and the types of all tokens; numbers without a token are unused."""
    size = max([size, *(entry["id"] + 1 for entry in added), *(number + 1 for number in model["vocab"].values())])
    tokens = [f"[PAD{number}]" for number in range(size)]
    types = [UNUSED] * size
    for text, number in model["vocab"].items():
        tokens[number] = text
        byte = model.get("byte_fallback") and len(text) == 6 and text.startswith("<0x") and text.endswith(">")
        types[number] = BYTE if byte else NORMAL
    for entry in added:
        tokens[entry["id"]] = entry["content"]
        types[entry["id"]] = CONTROL if entry["special"] else USER_DEFINED
    return tokens, types


def _scores(tokens: list[str], types: list[int], merges: list[str]) -> list[float]:
    """Return a score of each token by which llama.cpp makes the merges of `tokenizers` in their order."""
    rank: dict[str, int] = {}
    for number, merge in enumerate(merges):
        left, _, right = merge.partition(" ")
        rank.setdefault(left + right, number)
    lowest = -1e6  # of what no merge makes: characters, which need no score
    return [
        -float(rank[text]) if kind == NORMAL and text in rank else lowest
        for text, kind in zip(tokens, types, strict=True)
    ]


def _rule(pre_tokenizer: dict[str, Any]) -> str | None:
    """Return the name of the rule that cuts texts into words, as llama.cpp has it; None if it has none."""
    parts = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    if not any(part.get("type") == "ByteLevel" for part in parts):
        return None
    patterns = [part["pattern"].get("Regex") for part in parts if part.get("type") == "Split"]
    if not patterns:
        return "gpt-2" if all(part.get("use_regex", True) for part in parts) else None
    return RULES.get(patterns[0]) if len(patterns) == 1 else None
