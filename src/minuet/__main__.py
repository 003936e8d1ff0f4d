"""`python -m minuet`: the command line."""

import sys

from minuet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
