"""What a run is: a frozen, validated recipe, made of a preset, a file and overrides."""

from mptctl.recipe.fields import (
    DataRecipe as DataRecipe,
)
from mptctl.recipe.fields import (
    MethodRecipe as MethodRecipe,
)
from mptctl.recipe.fields import (
    ModelRecipe as ModelRecipe,
)
from mptctl.recipe.fields import (
    OptimRecipe as OptimRecipe,
)
from mptctl.recipe.fields import (
    Recipe as Recipe,
)
from mptctl.recipe.fields import (
    RuntimeRecipe as RuntimeRecipe,
)
from mptctl.recipe.fields import (
    differences as differences,
)
from mptctl.recipe.fields import (
    recipe_keys as recipe_keys,
)
from mptctl.recipe.fields import (
    validate_method as validate_method,
)
from mptctl.recipe.fields import (
    validate_recipe as validate_recipe,
)
from mptctl.recipe.reading import (
    DEFAULT_PRESET as DEFAULT_PRESET,
)
from mptctl.recipe.reading import (
    change_recipe as change_recipe,
)
from mptctl.recipe.reading import (
    load_recipe as load_recipe,
)
from mptctl.recipe.reading import (
    preset_names as preset_names,
)
