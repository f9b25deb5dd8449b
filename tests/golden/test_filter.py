"""The filters beside numbers of papers and trainers."""

from __future__ import annotations

import numpy as np
import pytest

from karl_fast import filter
from tests.golden.test_files import golden
from tests.tolerances import GOLDEN

PENALTIES = golden("overlong_penalty")["cases"]
SAMPO = golden("sampo_empg")["sampo"]


@pytest.mark.parametrize(("form", "key"), [("dapo", "TRL"), ("verl", "verl_factor1"), ("openrlhf", "openrlhf_factor1")])
def test_the_soft_overlong_penalty_equals_each_trainer(form: str, key: str) -> None:
    lengths = np.array([case["len"] for case in PENALTIES], dtype=np.int64)
    found = filter.soft_overlong_penalty(lengths, max_tokens=100, cache_tokens=20, form=form)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, [case[key] for case in PENALTIES], rtol=GOLDEN)


def test_forms_differ_beyond_the_limit_by_their_factor() -> None:
    lengths = np.array([90, 130], dtype=np.int64)
    limits = {"max_tokens": 100, "cache_tokens": 20}
    assert filter.soft_overlong_penalty(lengths, **limits, form="verl", factor=2.0).tolist() == [-1.0, -5.0]
    assert filter.soft_overlong_penalty(lengths, **limits, form="openrlhf", factor=2.0).tolist() == [-1.0, -2.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_low_ratio_negatives_equal_the_sampo_mask(dtype: type) -> None:
    inputs, derived = SAMPO["inputs"], SAMPO["derived"]
    mask = np.array(inputs["mask"]) > 0
    tokens = [np.array(inputs[name], dtype=dtype)[mask] for name in ("new", "old")]
    offsets = np.concatenate([[0], mask.sum(axis=1).cumsum()]).astype(np.int64)
    advantages = np.array(inputs["adv"])
    found = filter.low_ratio_negatives(*tokens, offsets, advantages)
    assert found.keep.tolist() == derived["kept_by_seq_mask_0.223"]
    padded = [np.array(inputs[name], dtype=dtype).ravel() for name in ("new", "old")]
    every = np.arange(5, dtype=np.int64) * mask.shape[1]
    masked = filter.low_ratio_negatives(*padded, every, advantages, mask=mask.ravel())
    assert masked.keep.tolist() == derived["kept_by_seq_mask_0.223"]
    assert filter.low_ratio_negatives(*tokens, offsets, -advantages).keep.all()
    assert filter.low_ratio_negatives(*tokens, offsets, advantages, delta=0.46).keep.all()
