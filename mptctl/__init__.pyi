from mptctl.integrations.api import Report as Report
from mptctl.integrations.api import evaluate as evaluate
from mptctl.integrations.api import load as load
from mptctl.integrations.api import runs as runs
from mptctl.integrations.labels import disagree as disagree

__version__: str
