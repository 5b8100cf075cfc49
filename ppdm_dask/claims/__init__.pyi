from .judge import write_reproduction_page as write_reproduction_page
from .schema import claims_schema as claims_schema

__all__: list[str]
