"""Settings of every command: names, types, defaults, allowed values, and their TOML form."""
