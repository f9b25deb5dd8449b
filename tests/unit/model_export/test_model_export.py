"""Exports of adapters give what the adapter gives, in the programs that read them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx

from karl_fast.errors import ModelError, OutputExistsError, UsageError
from karl_fast.model_export import export_adapter
from karl_fast.model_export.gguf import _pair_rows, _rope_problem, _rope_theta
from karl_fast.model_export.modelfile import Frame, find_frame
from karl_fast.modeling.load import load
from karl_fast.train import Training, train
from tests import rows
from tests.unit.train.conftest import made, quiet

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    kinds = {"qwen3": (), "4bit": ("--bits", 4), "gemma3": ("--kind", "gemma3_text")}
    return {name: made(folder / name, *how) for name, how in kinds.items()}


@pytest.fixture(scope="module")
def adapter(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Trains an adapter that is far from nothing; each once."""
    folder, known = tmp_path_factory.mktemp("adapters"), dict[str, Path]()
    held = [{"prompt": f"question {n}", "completion": f"answer flight {n}"} for n in range(8)]
    (folder / "data").mkdir()
    rows.write(folder / "data" / "train.jsonl", held)

    def make(model: str = "qwen3", kind: str = "lora") -> Path:
        name = f"{model}-{kind}"
        if name not in known:
            settings = Training(iters=12, learning_rate=2e-2, fine_tune_type=kind, lora_rank=4, lora_scale=5.0)  # type: ignore[arg-type]
            train(folder / "data", models[model], folder / name, settings)
            known[name] = folder / name
        return known[name]

    return make


PROMPT = "question answer 3 of the flight"


def greedy(model: Any, tokenizer: Any, count: int = 12) -> list[int]:
    tokens = tokenizer.encode(PROMPT)
    for _ in range(count):
        tokens.append(int(mx.argmax(model(mx.array([tokens]))[0, -1]).item()))
    return list(tokens)


def files(folder: Path) -> dict[str, Any]:
    """The bytes of every file; of one, without a note of transformers on whether it was offline."""
    found: dict[str, Any] = {path.name: path.read_bytes() for path in folder.iterdir()}
    config = json.loads(found["tokenizer_config.json"])
    found["tokenizer_config.json"] = {name: value for name, value in config.items() if "local" not in name}
    return found


@pytest.mark.parametrize("kind", ["lora", "dora", "full"])
@pytest.mark.parametrize("model", ["qwen3", "4bit"])
def test_fused_model_is_that_of_mlx_lm(
    model: str, kind: str, adapter: Callable[..., Path], models: dict[str, Path], tmp_path: Path
) -> None:
    if (model, kind) == ("4bit", "full"):
        pytest.skip("whole layers of a quantized model cannot be trained")
    held = adapter(model, kind)
    result = export_adapter(held, tmp_path / "ours", "mlx")
    command = [sys.executable, "-m", "mlx_lm", "fuse", "--model", models[model], "--adapter-path", held]
    command += ["--save-path", tmp_path / "theirs"]
    done = subprocess.run([str(word) for word in command], env=quiet(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = files(tmp_path / "theirs")
    assert files(tmp_path / "ours") == theirs
    assert set(result.files) == set(theirs)
    assert Path(result.model).samefile(models[model])
    fused, trained = load(str(tmp_path / "ours")), load(str(models[model]), str(held))
    if model == "qwen3":  # what is quantized again is rounded
        assert greedy(fused.model, fused.tokenizer) == greedy(trained.model, trained.tokenizer)
    assert any("quantized again" in remark for remark in result.remarks) == (model == "4bit")


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # which PEFT 0.21 asks for
@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_peft_has_equal_logits(
    kind: str, adapter: Callable[..., Path], models: dict[str, Path], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="the export for PEFT is read by PEFT: pip install torch peft")
    peft = pytest.importorskip("peft", reason="the export for PEFT is read by PEFT: pip install torch peft")
    from transformers import AutoModelForCausalLM

    export_adapter(adapter("qwen3", kind), tmp_path / "peft", "peft")
    base = AutoModelForCausalLM.from_pretrained(models["qwen3"], dtype=torch.float32)
    loaded = load(str(models["qwen3"]), str(adapter("qwen3", kind)))
    tokens = loaded.tokenizer.encode(PROMPT)
    with torch.no_grad():
        before = base(torch.tensor([tokens])).logits[0].numpy()
        found = peft.PeftModel.from_pretrained(base, tmp_path / "peft")(torch.tensor([tokens])).logits[0].numpy()
    wanted = np.array(loaded.model(mx.array([tokens]))[0])
    np.testing.assert_allclose(found, wanted, atol=2e-4 * np.abs(wanted).max())
    assert np.abs(before - wanted).max() > 0.05 * np.abs(wanted).max()


def test_peft_files_hold_the_adapter(adapter: Callable[..., Path], tmp_path: Path) -> None:
    """What PEFT reads, without PEFT: transposed matrices by full names, and alpha over rank equal to the scale."""
    held = adapter("qwen3", "dora")
    export_adapter(held, tmp_path / "peft", "peft", base="Qwen/base")
    config = json.loads((tmp_path / "peft" / "adapter_config.json").read_text("utf-8"))
    assert config["base_model_name_or_path"] == "Qwen/base"
    assert config["lora_alpha"] / config["r"] == 5.0
    assert config["use_dora"]
    ours = mx.load(str(tmp_path / "peft" / "adapter_model.safetensors"))
    theirs = mx.load(str(held / "adapters.safetensors"))
    names = {"lora_a": "lora_A.weight", "lora_b": "lora_B.weight", "m": "lora_magnitude_vector"}
    assert len(ours) == len(theirs)  # type: ignore[arg-type]
    for name, array in theirs.items():  # type: ignore[union-attr]
        module, _, leaf = name.rpartition(".")
        assert module in config["target_modules"]
        found = ours[f"base_model.model.{module}.{names[leaf]}"]  # type: ignore[index,call-overload]
        assert mx.array_equal(found, array.T if leaf != "m" else array)


def test_gguf_holds_the_fused_weights_and_the_tokens(adapter: Callable[..., Path], tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="pip install '.[gguf]'")
    export_adapter(adapter(), tmp_path / "model.gguf", "gguf")
    export_adapter(adapter(), tmp_path / "fused", "mlx")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    fused: Any = mx.load(str(tmp_path / "fused" / "model.safetensors"))
    held = {tensor.name: tensor for tensor in reader.tensors}
    assert len(held) == len(fused)
    for ours, theirs in {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.1.attn_q.weight": "model.layers.1.self_attn.q_proj.weight",
        "blk.0.ffn_down.weight": "model.layers.0.mlp.down_proj.weight",
        "blk.0.attn_q_norm.weight": "model.layers.0.self_attn.q_norm.weight",
        "output_norm.weight": "model.norm.weight",
    }.items():
        np.testing.assert_array_equal(held[ours].data, np.array(fused[theirs]))
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert fields["general.architecture"] == "qwen3"
    assert fields["qwen3.attention.key_length"] == 16
    tokenizer = json.loads((tmp_path / "fused" / "tokenizer.json").read_text("utf-8"))
    for text, number in tokenizer["model"]["vocab"].items():
        assert fields["tokenizer.ggml.tokens"][number] == text
    assert len(fields["tokenizer.ggml.merges"]) == len(tokenizer["model"]["merges"])
    assert fields["tokenizer.ggml.eos_token_id"] == 2
    assert "im_start" in fields["tokenizer.chat_template"]


def test_llama_cpp_writes_what_the_adapter_writes(
    adapter: Callable[..., Path], models: dict[str, Path], tmp_path: Path
) -> None:
    """Token for token, from text: the tokenizer is compared too."""
    llama = pytest.importorskip("xllamacpp", reason="llama.cpp reads the file: pip install xllamacpp")
    pytest.importorskip("gguf", reason="pip install '.[gguf]'")
    export_adapter(adapter(), tmp_path / "model.gguf", "gguf")
    loaded = load(str(models["qwen3"]), str(adapter()))
    settings = llama.CommonParams()
    settings.model.path = str(tmp_path / "model.gguf")
    settings.n_ctx, settings.n_parallel, settings.warmup, settings.cpuparams.n_threads = 256, 1, False, 1
    server = llama.Server(settings)
    asked = {"prompt": PROMPT, "temperature": 0.0, "top_k": 1, "max_tokens": 12, "ignore_eos": True}
    found = server.handle_completions(asked)
    prompt = loaded.tokenizer.encode(PROMPT)
    assert found["usage"]["prompt_tokens"] == len(prompt)
    wanted = greedy(loaded.model, loaded.tokenizer)[len(prompt) :]
    assert found["choices"][0]["text"] == loaded.tokenizer.decode(wanted)


def test_rows_of_llama_stand_in_pairs() -> None:
    """Two heads of four rows: 0, 2, 1, 3 of each."""
    rows_ = mx.arange(8.0)[:, None] * mx.ones((1, 3))
    assert np.array(_pair_rows(rows_, 2))[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_other_families_and_settings_are_refused_by_name(adapter: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="pip install '.[gguf]'")
    with pytest.raises(ModelError, match=r"sliding_window_pattern is 2, and llama\.cpp takes 6$") as error:
        export_adapter(adapter("gemma3"), tmp_path / "model.gguf", "gguf")
    assert "convert_hf_to_gguf.py" in (error.value.hint or "")
    assert not any(tmp_path.iterdir())


def ollama(template: str, system: str, turns: list[tuple[str, str | None]]) -> str:
    """Ollama's rendering of a template of this form: once a turn, cut behind the answer of the last."""
    text = ""
    for number, (words, answer) in enumerate(turns):
        before, _, rest = template.partition("{{ if .System }}")
        shown = system if number == 0 else ""
        if rest:
            with_system, _, rest = rest.partition("{{ else }}")
            without, _, rest = rest.partition("{{ end }}")
            rest = before + (with_system.replace("{{ .System }}", shown) if shown else without) + rest
        else:
            rest = before
        whole = rest.replace("{{ .Prompt }}", words)
        text += whole.split("{{ .Response }}")[0] if answer is None else whole.replace("{{ .Response }}", answer)
    return text


@pytest.mark.parametrize("system", ["", "be short"])
def test_modelfile_renders_as_the_chat_template(adapter: Callable[..., Path], system: str, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="pip install '.[gguf]'")
    result = export_adapter(adapter(), tmp_path / "ollama", "ollama")
    assert result.files == ["Modelfile", "model.gguf"]
    text = (tmp_path / "ollama" / "Modelfile").read_text("utf-8")
    assert text.startswith("FROM ./model.gguf\n")
    assert 'PARAMETER stop "<|im_end|>"' in text
    template = text.partition('TEMPLATE """')[2].partition('"""')[0]
    tokenizer = load(result.model).tokenizer
    messages = [{"role": "system", "content": system}] if system else []
    messages += [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    wanted = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert ollama(template, system, [("a", "b"), ("c", None)]) == wanted


class Template:
    """A tokenizer that has a chat template alone."""

    bos_token, bos_token_id = None, None

    def __init__(self, text: str) -> None:
        import jinja2

        self.compiled = jinja2.Template(text)

    def encode(self, _text: str) -> list[int]:
        return [5]

    def apply_chat_template(self, messages: Any, **more: Any) -> str:
        return self.compiled.render(messages=messages, **more)


COUNTS = """{% for m in messages %}<{{ loop.index }}>{{ m['content'] }}{% endfor %}
{%- if add_generation_prompt %}<x>{% endif %}"""

SHOUTS = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] | upper }}{% endfor %}"

GEMMA = """{% if messages[0]['role'] == 'system' %}
{%- set first = messages[0]['content'] + '#' %}{% set rest = messages[1:] %}
{%- else %}{% set first = '' %}{% set rest = messages %}{% endif %}
{%- for m in rest %}<start>{{ 'model' if m['role'] == 'assistant' else m['role'] }}:
{{- first if loop.first else '' }}{{ m['content'] }}<end>{% endfor %}
{%- if add_generation_prompt %}<start>model:{% endif %}"""
"""It puts a system prompt into the turn of the user."""


def test_template_that_does_more_is_left_to_ollama() -> None:
    assert find_frame(Template(COUNTS)) is None
    assert find_frame(Template(SHOUTS)) is None
    assert find_frame(Template(GEMMA)) == Frame(("<start>user:", "#"), "<start>user:", "<end><start>model:", "<end>")


def test_what_cannot_be_written_is_refused(adapter: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OutputExistsError, match="there exists already"):
        export_adapter(adapter(), tmp_path / "there", "mlx")
    with pytest.raises(UsageError, match="the form is 'onnx', wanted one of mlx, gguf"):
        export_adapter(adapter(), tmp_path / "out", "onnx")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="base is the name of the model for peft, and the form is mlx"):
        export_adapter(adapter(), tmp_path / "out", "mlx", base="x")
    with pytest.raises(ModelError, match="whole layers, which PEFT has no form of"):
        export_adapter(adapter("qwen3", "full"), tmp_path / "out", "peft")
    with pytest.raises(ModelError, match="no such folder"):
        export_adapter(tmp_path / "nothing", tmp_path / "out", "mlx")
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("adapters.safetensors", "adapter_config.json"):
        config = (adapter() / name).read_bytes()
        (moved / name).write_bytes(config)
    (moved / "adapter_config.json").write_text(
        json.dumps({k: v for k, v in json.loads((moved / "adapter_config.json").read_text()).items() if k != "model"})
    )
    with pytest.raises(UsageError, match="does not say which model it was trained on: wanted it as --model"):
        export_adapter(moved, tmp_path / "out", "mlx")
    assert not (tmp_path / "out").exists()


def test_lm_studio_needs_a_chat_template(adapter: Callable[..., Path], tmp_path: Path) -> None:
    result = export_adapter(adapter(), tmp_path / "me" / "tiny", "lmstudio")
    assert "model.safetensors" in result.files
    assert any(".lmstudio/models/PUBLISHER/MODEL" in remark for remark in result.remarks)


@pytest.mark.parametrize(
    ("config", "scaled", "theta"),
    [
        ({"rope_theta": 5e5}, False, 5e5),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, True, 1e4),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, False, 1e6),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0}}, True, 1e6),
        ({"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6}}}, False, 1e6),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}}, True, 1e4),
    ],
    ids=str,
)
def test_positions_are_read_as_transformers_keeps_them(config: dict[str, Any], scaled: bool, theta: float) -> None:
    assert (_rope_problem(config) is not None) == scaled
    assert _rope_theta(config) == theta
