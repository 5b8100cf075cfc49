"""A column of a frame of pandas, which is imported only where there is such a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.files.column import Column, Positions, Rows
from ppdm_dask.files.texts import canonical_text, cell_text

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["FrameColumn"]


@dataclass(frozen=True, eq=False)
class FrameColumn(Column):
    """A column of a frame of pandas, of any dtype."""

    values: pd.Series

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kind(self) -> np.dtype[Any]:
        kind = getattr(self.values.dtype, "numpy_dtype", self.values.dtype)
        if isinstance(kind, np.dtype) and kind.kind == "f" and kind.itemsize < 8:
            return kind
        return super().kind

    def numbers(self) -> Floats | None:
        if self.values.dtype.kind not in "iufb":
            return None
        found: Floats = self.values.to_numpy(dtype=np.float64, na_value=np.nan)
        return found

    def factorised(self) -> tuple[Positions, list[str]]:
        import pandas as pd

        values = self.values
        if values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) != "string":
            # Python holds 1, 1.0 and True for equal, so mixed columns are made text by value.
            missing = values.isna().to_numpy()
            values = pd.Series(
                [None if m else canonical_text(v) for m, v in zip(missing, values, strict=True)],
                dtype=object,
            )
        positions, distinct = pd.factorize(values)
        # An array keeps single precision, in which 0.1 is "0.1", where pandas would hand out
        # doubles.
        singles = np.asarray(distinct) if distinct.dtype.kind == "f" else distinct
        return positions, [canonical_text(value) for value in singles]

    def coded(self) -> tuple[Positions, list[str]]:
        import pandas as pd

        kind = self.values.dtype
        if not isinstance(kind, pd.CategoricalDtype) or len(kind.categories) > len(self):
            return self.factorised()
        each = pd.Categorical.from_codes(np.arange(len(kind.categories)), dtype=kind)
        return self.values.array.codes, [canonical_text(value) for value in each]

    def value(self, row: int) -> Any:
        return self.values.iloc[row]

    def objects(self) -> list[Any]:
        return list(self.values.astype(object).where(self.values.notna(), None))

    def cells(self) -> list[str]:
        import pandas as pd
        import pyarrow as pa

        dtype = self.values.dtype
        if isinstance(dtype, pd.ArrowDtype) and pa.types.is_floating(dtype.pyarrow_dtype):
            kind = dtype.pyarrow_dtype.to_pandas_dtype()
            return [cell_text(each) for each in self.values.to_numpy(kind, na_value=np.nan)]
        return [cell_text(each) for each in self.values]

    def to_numpy(self) -> npt.NDArray[Any]:
        return self.values.to_numpy()

    def take(self, rows: Rows) -> FrameColumn:
        return FrameColumn(self.values.iloc[rows])

    def arrow(self, kind: pa.DataType | None = None) -> Any:
        import pyarrow as pa

        return pa.array(self.values, kind, from_pandas=True)

    def series(self) -> pd.Series:
        return self.values
