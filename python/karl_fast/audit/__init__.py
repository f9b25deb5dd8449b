"""Audit of a dump of rollouts: is there anything to learn in it, and what is wrong with it?

```text
log -> Rollouts (columns) -> convention, signal, mismatch, forms, prompts, diversity -> findings, the weightiest first
```

| module | question |
|---|---|
| `conventions` | which convention reproduces the logged advantages? |
| `signal` | which groups teach nothing, why, and what did they cost? |
| `mismatch` | how old are rollouts, and how far are sampler and trainer apart? |
| `reward_hacking` | does the reward follow length, repetition or markup? |
| `prompts` | do groups mix prompts, do splits or a benchmark share them? |
| `diversity` | do answers collapse over the steps? |
"""
