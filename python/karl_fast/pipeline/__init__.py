"""The main job in one call: from logs to a data set."""
