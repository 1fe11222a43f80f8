"""`python -m pystreams` is the `pystreams` command."""

import sys

from pystreams.cli.application.import_path import put_on_path

put_on_path(sys.path[0])  # The working directory, which may have a module named like Python's own.

from pystreams.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
