"""``python -m plugrad``: the same as the ``plugrad`` command."""

import sys

from plugrad.cli import main

if __name__ == "__main__":
    sys.exit(main())
