"""The plainest twin of every kernel, a file a family: one formula, one loop, no shortcut. Slow on purpose."""
