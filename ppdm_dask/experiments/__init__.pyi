from .folder import RunFolder as RunFolder
from .folder import StoredRun as StoredRun
from .folder import now as now
from .folder import read_run as read_run
from .kinds import AnyRecipe as AnyRecipe
from .kinds import check_recipe as check_recipe
from .kinds import is_recipe as is_recipe
from .kinds import kind_of as kind_of
from .kinds import kind_of_result as kind_of_result
from .kinds import load_recipe as load_recipe
from .kinds import make_plan as make_plan
from .kinds import outline as outline
from .kinds import recipe_schema as recipe_schema
from .kinds import telling_tables as telling_tables
from .results import write_netcdf as write_netcdf
from .run import RunResult as RunResult

__all__: list[str]
