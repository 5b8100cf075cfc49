from .columns import spreadsheet_safe as spreadsheet_safe
from .fields import read_toml as read_toml
from .reader import DataFile as DataFile
from .reader import Reading as Reading
from .reader import expand as expand
from .reader import open_data as open_data
from .writing import replacing as replacing
from .writing import write_text as write_text

__all__: list[str]
