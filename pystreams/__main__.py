"""`python -m pystreams` is the `pystreams` command."""

from pystreams.cli.main import main

if __name__ == "__main__":
    main()
