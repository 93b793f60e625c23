from mptctl.api import Report as Report
from mptctl.api import evaluate as evaluate
from mptctl.api import load as load
from mptctl.api import runs as runs

__version__: str
