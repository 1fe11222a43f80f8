"""`python -m pystreams` is the `pystreams` command."""

import sys

from pystreams.cli.application.import_path import put_on_path

if not sys.flags.safe_path:
    put_on_path(sys.path[0])  # The working directory, which may have modules named like Python's.

from pystreams.cli.main import main

if __name__ == "__main__":
    main()
