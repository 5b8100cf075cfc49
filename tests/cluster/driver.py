"""A run in a process of its own, for tests that kill it; on purpose without a main guard.

Called with the ledger's path and the keyword arguments of ``run`` as JSON; ``profile`` is a path.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))

from toy_works import Draws, make_cells

from ppdm_dask.cluster.kinds import load_profile
from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.cells import Progress
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import RunFolderError, RunInterrupted


def tell(progress: Progress) -> None:
    print(progress.done_repeats, flush=True)


class Scripted(Draws):
    """Defined in the script itself, so that workers cannot import it."""


def run(work: dict[str, Any], n_cells: int, repeats: int, **arguments: Any) -> None:
    cells = make_cells(n_cells, repeats)
    if "profile" in arguments:
        arguments["profile"] = load_profile(arguments["profile"])
    with Ledger(sys.argv[1]) as ledger:
        try:
            execute(Scripted(**work), cells, ledger, progress=tell, **arguments)
        except RunInterrupted as stopped:
            print(stopped, file=sys.stderr)
            sys.exit(130)
        except RunFolderError as error:
            print(f"RunFolderError: {error}", file=sys.stderr)
            sys.exit(1)


run(**json.loads(sys.argv[2]))
