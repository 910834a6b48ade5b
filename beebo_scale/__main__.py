"""`python -m beebo_scale` is `beebo-scale`."""

import sys

from .cli.main import main

sys.exit(main())
