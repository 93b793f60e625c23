from mptctl.integrations.api import Report as Report
from mptctl.integrations.api import evaluate as evaluate
from mptctl.integrations.api import load as load
from mptctl.integrations.api import runs as runs
from mptctl.integrations.labels import disagree as disagree
from mptctl.methods import build_method as build_method
from mptctl.recipe.own import criterion as criterion
from mptctl.recipe.own import method as method
from mptctl.recipe.own import network as network

__version__: str
