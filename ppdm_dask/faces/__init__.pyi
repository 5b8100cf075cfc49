from .dataset import dataset_of as dataset_of
from .face import Face as Face
from .face import brief as brief

__all__: list[str]
