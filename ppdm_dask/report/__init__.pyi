from .answers import write_answers_page as write_answers_page
from .pages import write_report as write_report
from .pages import write_reproduction as write_reproduction
from .protocol import write_protocol as write_protocol
from .release import METRIC_WORDS as METRIC_WORDS
from .release import release_file as release_file

__all__: list[str]
