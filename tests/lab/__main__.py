"""python3 -m lab"""

import sys

from .cli import main

sys.exit(main())
