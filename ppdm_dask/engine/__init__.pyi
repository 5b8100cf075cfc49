from .cells import Cell as Cell
from .cells import Progress as Progress
from .cells import Work as Work
from .ledger import Ledger as Ledger

__all__: list[str]
