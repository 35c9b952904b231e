"""Write the references as `python -m pipelines.reference`."""

import sys

from pipelines.reference.pages import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
