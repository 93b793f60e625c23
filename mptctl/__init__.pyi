from mptctl.api import Report as Report
from mptctl.api import evaluate as evaluate
from mptctl.api import load as load

__version__: str
