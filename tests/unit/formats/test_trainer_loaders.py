"""Tables for verl and prime-rl, read by the loaders that these trainers read them with.

Both loaders need torch, and prime-rl is in no registry: a test is skipped where its trainer is not installed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.formats.test_written_forms import TOOLS, read, written
from tests.unit.formats.test_written_forms import log as log

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = (
    "{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\\n' }}"
    "{%- if loop.first and tools -%}{{ '<tools>' + tools | tojson + '</tools>' }}{%- endif -%}{{ m.content or '' }}"
    "{%- for c in m.tool_calls or [] -%}{%- set a = c.function.arguments -%}"
    "{{ '<call>' + c.function.name + ' ' + (a if a is string else a | tojson) + '</call>' }}{%- endfor -%}"
    "{{ '<|im_end|>\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)
"""A ChatML template, which takes the arguments of a call as an object or as a text."""


def byte_tokenizer() -> Any:
    """Return a tokenizer of transformers, a token for each byte and for each mark of the template."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({text: at for at, text in enumerate(alphabet)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    made.add_tokens([f"<{end}{name}>" for name in ("tool_call", "tool_response", "think") for end in ("", "/")])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|im_end|>", chat_template=TEMPLATE
    )


def answers(row: dict[str, Any]) -> list[str]:
    """Return what the model wrote in each of its turns, as the template shows it."""
    turns = []
    for message in row["messages"]:
        if message["role"] == "assistant":
            calls = [call["function"] for call in message.get("tool_calls") or []]
            shown = [f"<call>{call['name']} {call['arguments']}</call>" for call in calls]
            turns.append(message["content"] + "".join(shown))
    return turns


def test_verl_learns_every_turn_of_the_model(log: Path) -> None:
    pytest.importorskip("verl", reason="verl is not installed: pip install verl")
    sft = pytest.importorskip("verl.utils.dataset.multiturn_sft_dataset")
    out, _ = written(log, "verl")
    tokenizer = byte_tokenizer()
    loaded = sft.MultiTurnSFTDataset(
        str(out / "train.parquet"), tokenizer, {"max_length": 2048, "pad_mode": "no_padding"}
    )
    rows = read(out)
    assert len(loaded) == len(rows) == 12
    for row, item in zip(rows, loaded, strict=True):
        whole = tokenizer.decode(item["input_ids"])
        assert json.dumps(TOOLS[0]) in whole
        assert "x = 1<|im_end|>" in whole
        learned = tokenizer.decode(item["input_ids"][item["loss_mask"].bool()])
        assert learned == "".join(f"{turn}<|im_end|>\n" for turn in answers(row))


def test_prime_rl_learns_every_turn_of_the_model(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("prime_rl", reason="prime-rl is not installed: it is in no registry, and needs Python 3.12")
    datasets = pytest.importorskip("datasets")
    renderers = pytest.importorskip("renderers")
    sft = pytest.importorskip("prime_rl.trainer.sft.data")
    out, _ = written(log, "prime-rl")
    tokenizer = byte_tokenizer()
    table = datasets.load_dataset("parquet", data_files=str(out / "train.parquet"), cache_dir=str(tmp_path / "cache"))
    renderer = renderers.Qwen3Renderer(tokenizer, renderers.Qwen3RendererConfig())
    loaded = sft.SFTDataset(table["train"], renderer, shuffle=False, seq_len=4096, max_epochs=1)
    rows = read(out)
    items = list(loaded)
    assert len(items) == len(rows) == 12
    for row, item in zip(rows, items, strict=True):
        whole = tokenizer.decode(item["input_ids"])
        assert json.dumps(TOOLS[0]) in whole
        assert "x = 1" in whole
        pairs = zip(item["target_ids"], item["loss_mask"], strict=True)
        learned = tokenizer.decode([token for token, is_learned in pairs if is_learned])
        for message in row["messages"]:
            if message["content"] != "a.py":  # which an argument is, too
                assert (message["content"] in learned) == (message["role"] == "assistant")
            for call in message.get("tool_calls") or []:
                # The JSON text of the arguments is an object again.
                shown = call["function"] | {"arguments": json.loads(call["function"]["arguments"])}
                assert f"<tool_call>\n{json.dumps(shown)}\n</tool_call>" in learned
