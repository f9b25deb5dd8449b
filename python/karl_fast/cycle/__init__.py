"""The loop of a project as one command: collect, convert, outcomes, sample, train, eval, promote.

```text
cycle.toml ──► config ──► checks ──► tasks: command, inputs and output of each step ──► run: skip or execute, or plan
                                                                                       └─► records of steps and runs
```

Each step is a command of karl-fast in a process of its own. It is skipped where its inputs (content of files, settings,
version) are those of a finished run of it, and its output is as that run left it.
"""
