from .texts import plain_table as plain_table

__all__: list[str]
