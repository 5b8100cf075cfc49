from . import documents as documents
from .compare import Drift as Drift
from .documents import Notice as Notice
from .documents import check_hook as check_hook
from .documents import notify as notify
from .reproduce import Grade as Grade
from .reproduce import Renewed as Renewed
from .reproduce import Reproduced as Reproduced
from .reproduce import check_reason as check_reason
from .reproduce import default_folder as default_folder
from .reproduce import grades_schema as grades_schema
from .reproduce import read_grade as read_grade
from .reproduce import renew as renew
from .reproduce import reproduce as reproduce

__all__: list[str]
