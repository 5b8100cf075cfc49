from .cells import Cell as Cell
from .cells import Work as Work
from .ledger import Ledger as Ledger
from .progress import Progress as Progress

__all__: list[str]
