"""Operations of MLX and of karl-fast on the device, each beside the same on the CPU.

```text
difference = max |device - CPU| / max |CPU|
```

On a GPU these are Metal kernels. Without one the two are the same operations, and the compiled one is the check.
"""

from __future__ import annotations

import shutil
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

from karl_fast._extras import require_mlx
from karl_fast.errors import KarlError

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.doctor import Job, Save

    Operation = Callable[[], list[Any]]

TOLERANCE = 0.02
"""Relative difference above which a kernel is wrong: a GPU may round the factors of a product to ten bits."""

TOKENS, WIDTH, HEADS = 256, 64, 4


def check_kernels(job: Job, save: Save) -> dict[str, Any]:
    """Run each operation on the device and on the CPU; return milliseconds and differences.

    Raises:
        KarlError: one raises, or differs by more than `TOLERANCE`; the result has them by name.
    """
    require_mlx()
    import mlx.core as mx

    mx.enable_compile()
    results: dict[str, Any] = {}
    for name, (function, plain) in operations().items():
        try:
            results[name] = compare_with_cpu(function, plain)
        except Exception as error:  # of MLX, which has no class of its own
            text = " ".join(str(error).split())[:200]
            results[name] = {"error": f"{type(error).__name__}: {text}", "traceback": traceback.format_exc()}
        save({"operations": results})
    bad = [name for name, row in results.items() if "error" in row or row["difference"] > TOLERANCE]
    if bad:
        reasons = [f"{name}: {results[name].get('error', 'differs from the CPU')}" for name in bad]
        raise KarlError("; ".join(reasons))
    return {"operations": results}


def compare_with_cpu(function: Operation, plain: Operation) -> dict[str, Any]:
    """Return the milliseconds of an operation on the device, and its relative difference from `plain` on the CPU."""
    import mlx.core as mx
    import numpy as np

    def compute(function: Operation) -> tuple[float, list[Any]]:
        start = time.perf_counter()
        arrays = function()
        mx.eval(arrays)
        return time.perf_counter() - start, [np.array(array.astype(mx.float32)) for array in arrays]

    first, _ = compute(function)  # with the compilation of its kernels
    seconds, device = compute(function)
    default = mx.default_device()
    mx.set_default_device(mx.Device(mx.cpu))
    try:
        _, cpu = compute(plain)
    finally:
        mx.set_default_device(default)
    pairs = [(np.abs(a - b).max(), np.abs(b).max()) for a, b in zip(device, cpu, strict=True)]
    difference = max(float(gap / max(size, 1e-30)) for gap, size in pairs)
    if not np.isfinite(difference):
        raise KarlError("the result is not finite")
    return {
        "first_ms": round(first * 1e3, 2),
        "ms": round(seconds * 1e3, 2),
        "difference": float(f"{difference:.2g}"),
    }


def operations() -> dict[str, tuple[Operation, Operation]]:
    """Return the operations by name, each with what it is compared with on the CPU: most with themselves."""
    import mlx.core as mx

    from karl_fast.modeling.gated_delta import gated_delta

    def normal(*shape: int, seed: int = 0) -> Any:
        # By NumPy: both devices get the same numbers, whatever their own random numbers are.
        import numpy as np

        return mx.array(np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32))

    x, gains = normal(TOKENS, 512), normal(512, seed=1)
    q, k, v = (normal(1, HEADS, TOKENS, WIDTH, seed=seed) for seed in range(3))
    named: dict[str, Operation] = {
        "rms_norm": lambda: [mx.fast.rms_norm(x, gains, 1e-6)],
        "rope": lambda: [mx.fast.rope(q, WIDTH, traditional=False, base=1e4, scale=1.0, offset=3)],
        "matmul in 4 bits": partial(
            _quantized_product, x, *mx.quantize(normal(256, 512, seed=2), group_size=64, bits=4)
        ),
        "attention": lambda: [mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask="causal")],
        "attention, gradient": lambda: _gradient(
            lambda *a: mx.fast.scaled_dot_product_attention(*a, scale=0.125, mask="causal"), q, k, v
        ),
        "attention by blocks, gradient": partial(_attention_by_blocks, q, k, v),
        "gated delta": partial(_gated_delta, normal, gradient=False),
        "gated delta, gradient": partial(_gated_delta, normal, gradient=True),
        "log-probabilities": partial(_log_probabilities, normal(64, 8192, seed=3)),
        "random integers": lambda: [mx.random.randint(0, 1 << 20, (1024,), key=mx.random.key(7))],
    }
    pairs = {name: (function, function) for name, function in named.items()}
    if mx.metal.is_available():
        pairs["mx.fast.metal_kernel"] = partial(_metal_kernel, x), lambda: [mx.exp(x)]
        arrays = _gates(normal, 128)
        pairs["gated delta of mlx-lm"] = partial(_kernel_of_mlx_lm, arrays), lambda: [gated_delta(*arrays)[0]]
    if mx.default_device().type == mx.DeviceType.gpu or shutil.which("g++"):
        compiled = mx.compile(_fused)
        pairs["mx.compile"] = lambda: [compiled(x)], lambda: [_fused(x)]
    return pairs


def _gradient(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    import mlx.core as mx

    def total(*arrays: Any) -> Any:
        return mx.square(function(*arrays)).sum()

    return list(mx.grad(total, argnums=tuple(range(len(arrays))))(*arrays))


def _quantized_product(x: Any, packed: Any, scales: Any, biases: Any) -> list[Any]:
    import mlx.core as mx

    return [mx.quantized_matmul(x, packed, scales, biases, transpose=True, group_size=64, bits=4)]


def _attention_by_blocks(q: Any, k: Any, v: Any) -> list[Any]:
    from karl_fast.modeling.block_attention import attention

    def causal(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, 0.125, "causal")

    return [causal(q, k, v), *_gradient(causal, q, k, v)]


def _gates(normal: Callable[..., Any], width: int) -> list[Any]:
    """Return queries, keys of length 1, values, gates and strengths of a gated delta layer."""
    import mlx.core as mx

    q, k, v = (normal(1, TOKENS, HEADS, width, seed=seed) for seed in range(3))
    k = k * mx.rsqrt(mx.square(k).sum(-1, keepdims=True))
    g, beta = (mx.sigmoid(normal(1, TOKENS, HEADS, seed=seed) + 2) for seed in (3, 4))
    return [q, k, v, g, beta]


def _gated_delta(normal: Callable[..., Any], *, gradient: bool) -> list[Any]:
    from karl_fast.modeling.gated_delta import gated_delta

    arrays = _gates(normal, WIDTH)
    return _gradient(lambda *a: gated_delta(*a)[0], *arrays) if gradient else list(gated_delta(*arrays))


def _kernel_of_mlx_lm(arrays: list[Any]) -> list[Any]:
    """Return the outputs of mlx-lm's Metal kernel, which karl-fast's chunks compute too."""
    import mlx.core as mx
    from mlx_lm.models import gated_delta

    kernel: Any = gated_delta.gated_delta_kernel
    return [kernel(*arrays, mx.zeros((1, HEADS, 128, 128)))[0]]


def _log_probabilities(logits: Any) -> list[Any]:
    import mlx.core as mx

    from karl_fast.modeling.chunked_logp import log_probabilities

    targets = mx.arange(logits.shape[0])
    return [log_probabilities(logits, targets), *_gradient(lambda a: log_probabilities(a, targets), logits)]


def _metal_kernel(x: Any) -> list[Any]:
    """Return exp(x) by a kernel that is compiled here."""
    import mlx.core as mx

    source = "uint i = thread_position_in_grid.x; out[i] = metal::exp(inp[i]);"
    kernel: Any = mx.fast.metal_kernel(name="karl_fast_exp", input_names=["inp"], output_names=["out"], source=source)
    how = {"grid": (x.size, 1, 1), "threadgroup": (256, 1, 1)}
    return list(kernel(inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], **how))


def _fused(x: Any) -> Any:
    """Return what `mx.compile` makes one kernel of."""
    import mlx.core as mx

    return x * mx.sigmoid(x) + mx.exp(-mx.square(x))
