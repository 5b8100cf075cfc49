"""What single reports make certain: answers, and functions of several answers, by label.

Everything is about one block, and about the share of a category x in a report y,
``P[y, x] / sum over x of P[y, x]``: how likely x is after y where each joint category of the block
was equally likely before.

- A report makes a label *certain* if its share is 1 (but for `NEGLIGIBLE`), *nearly certain* above
  `NEARLY`, and *likely* above `LIKELY`.  What is certain is so for any prior that allows it.
- A report *rules out* a label of an attribute with more than two of them if its share is 0.
- The reports *give away* a function of the block's answers if each of them allows answers of one
  value of it only.  The finest such function has the connected components of a graph as its values,
  in which a category hangs on the reports that allow it.
- A single report gives away a *relation* between attributes if it allows at most half of the
  combinations of the labels that it allows.

A report allows all categories but the least likely ones, whose shares sum to `NEGLIGIBLE`, or to
1 - `NEARLY`.  Reports that are less likely than `NEGLIGIBLE` whatever the answer are passed over.
Families with structure have closed forms; others are looked through row by row.
"""

from __future__ import annotations

from ppdm_dask.certainty.blocks import bare_attributes, certainties
from ppdm_dask.certainty.sentences import LIKELY, NEARLY, NEGLIGIBLE, Certainty, Labels

__all__ = [
    "LIKELY",
    "NEARLY",
    "NEGLIGIBLE",
    "Certainty",
    "Labels",
    "bare_attributes",
    "certainties",
]
