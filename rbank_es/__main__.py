"""`python -m rbank_es` is `rbank-es`."""

import sys

from rbank_es.cli import main

if __name__ == "__main__":
    sys.exit(main())
