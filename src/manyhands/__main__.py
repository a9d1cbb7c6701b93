"""`python -m manyhands` is the `manyhands` command, and so is this file as a script."""

import sys

if not __package__:
    # A script's folder comes first on the path, and `types` here is not Python's.
    sys.path[0] = __file__.rpartition("/manyhands/")[0]

from manyhands.cli.main import main

# A worker process of a script runs the script again, under another name.
if __name__ == "__main__":
    main()
