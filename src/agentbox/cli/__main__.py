"""``python -m agentbox.cli``."""

import sys

from . import main

sys.exit(main())
