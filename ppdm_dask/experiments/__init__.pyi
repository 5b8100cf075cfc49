from .folder import RunFolder as RunFolder
from .folder import StoredRun as StoredRun
from .folder import now as now
from .folder import read_run as read_run
from .kinds import AnyRecipe as AnyRecipe
from .kinds import check_recipe as check_recipe
from .kinds import findings as findings
from .kinds import load_recipe as load_recipe
from .kinds import make_plan as make_plan
from .results import write_netcdf as write_netcdf
from .run import RunResult as RunResult
from .sweep.figures import draw_figures as draw_figures
from .sweep.tables import as_json as as_json
from .sweep.tables import plain_table as plain_table

__all__: list[str]
