"""From what agents leave behind to logs: trajectories, outcomes of their work, preference pairs, questions of commits.

```text
transcripts ─┬─► conversion: a trajectory a session, or KARL's records
             ├─► outcomes: trajectories with what the work in them came to
             └─► pairs: answers of which the user kept one
repositories ──► commits: a question for each commit
```

Each is one pass of the extension, from the files of `sources` to an output that appears whole or not at all.
"""
