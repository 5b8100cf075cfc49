from .judge import write_reproduction_page as write_reproduction_page

__all__: list[str]
