"""The command line, for `python -m karl_fast`."""

from karl_fast.entrypoint import main

if __name__ == "__main__":
    main()
