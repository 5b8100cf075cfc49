from .certainty import certainties as certainties
from .measures import audit as audit
from .measures import epsilon_of as epsilon_of

__all__: list[str]
