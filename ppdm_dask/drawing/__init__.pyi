from .texts import interval_text as interval_text
from .texts import number_text as number_text
from .texts import plain_table as plain_table

__all__: list[str]
