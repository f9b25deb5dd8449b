"""Models for training, offline and online: the parts that `karl_fast.train` and `karl_fast.rl` share.

| module | what it holds |
|---|---|
| `load`, `adapters`, `parameters` | a model of mlx-lm: loading, adapters, files of tensors |
| `model_views`, `layers` | the same model without adapters, in two halves, with recomputed layers |
| `chunked_logp` | log-probabilities and gradients without all logits |
| `segments`, `segment_states` | long rows in segments, and common prefixes once |
| `block_attention`, `gated_delta` | kernels with little memory |
| `optimizer` | one optimizer step: accumulate, norm, clip, update |
| `memory`, `graph_memory` | the memory plan, and the peak of a graph that is not computed |
| `checkpoint` | exact resume, metrics and trackers |
"""
