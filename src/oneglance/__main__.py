"""Runs the command line as `python -m oneglance`."""

import sys

from oneglance.cli import main

sys.exit(main())
