"""`python -m glmesh` is `glmesh`."""

import sys

from glmesh.cli import main

if __name__ == "__main__":
    sys.exit(main())
