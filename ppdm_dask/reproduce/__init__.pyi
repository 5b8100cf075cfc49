from . import documents as documents
from .compare import Drift as Drift
from .notify import Notice as Notice
from .notify import check_hook as check_hook
from .notify import notify as notify
from .renew import Renewed as Renewed
from .renew import check_reason as check_reason
from .renew import renew as renew
from .reproduce import Grade as Grade
from .reproduce import Reproduced as Reproduced
from .reproduce import default_folder as default_folder
from .reproduce import read_grade as read_grade
from .reproduce import reproduce as reproduce

__all__: list[str]
