"""Start the agent from the zip archive that panel/remote/bundle.py makes."""

import os
import sys

if sys.version_info < (3, 8):
    sys.exit("Python 3.8 or newer is needed, this is %d.%d." % sys.version_info[:2])

sys.path[0] = os.path.abspath(sys.path[0])  # the agent leaves the folder that it is started in

from agents.host.main import main  # noqa: E402 - not before the version is known

main()
