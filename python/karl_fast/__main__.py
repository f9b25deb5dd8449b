"""The command line, for `python -m karl_fast`."""

from karl_fast.entrypoint import main

main()
