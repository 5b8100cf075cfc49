"""One repeat of the ID3 sweep: deal groups, disguise, grow a tree, test it on the clean part.

Contestants do the same work on the same data in one process, in turns:

- NumPy on signed records: every report stands for 2^g records with signed weights, and a node's
  counts are matrix products over the rows inside it;
- plain numba: different rows once, with signed weights, and loops as one writes them down;
- pandas, as the paper reads: each event of a node is counted in the disguised frame in all 2^g
  flips, and Eq. (7) is solved;
- ours: what a run of the recipe does, its disguised test part included.
"""

from __future__ import annotations

import sys
from itertools import product

import numba
import numpy as np
import pandas as pd
from timing import Claim, interleave, ratio, report

from ppdm_dask import datasets
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.designs.multigroup import RandomGroups
from ppdm_dask.experiments.samples import Sample
from ppdm_dask.experiments.sweep.engines import BinaryID3
from ppdm_dask.experiments.sweep.trials import Setting
from ppdm_dask.resources import codebook_path

THETA = 0.8
FLOORS = {"adult": 80, "breast-cancer": 30, "votes": 6}
TIE = 1e-10


def best_split(ones: np.ndarray, total: np.ndarray, free: list[int]) -> int:
    """The feature with the least mean entropy; ``ones`` has shape (free features, classes)."""
    n = np.maximum(np.stack([total - ones, ones], axis=1), 0)
    size = n.sum(axis=2)
    share = np.divide(n, size[:, :, None], out=np.zeros_like(n), where=size[:, :, None] > 0)
    logs = np.log(share, out=np.zeros_like(n), where=share > 0)
    scores = -(n * logs).sum(axis=(1, 2)) / size.sum(axis=1)
    return free[int(np.argmax(scores <= scores.min() + TIE))]


def numpy_repeat(train: np.ndarray, test: np.ndarray, groups: int, rng) -> float:
    """Signed records: column 0 is the class, the others are features."""
    n, width = train.shape
    dealt = np.array_split(rng.permutation(width), groups)
    reports = train.copy()
    for group in dealt:
        flipped = rng.random(n) >= THETA
        reports[np.ix_(flipped, group)] ^= 1
    rows, weights = [], []
    for flips in product((0, 1), repeat=groups):
        part, weight = reports.copy(), 1.0
        for flip, group in zip(flips, dealt, strict=True):
            weight *= (THETA, THETA - 1)[flip] / (2 * THETA - 1)
            part[:, group] ^= flip
        rows.append(part)
        weights.append(np.full(n, weight))
    signed, weight = np.concatenate(rows), np.concatenate(weights)
    classes = np.stack([weight * (signed[:, 0] == c) for c in (0, 1)], axis=1)
    features = signed[:, 1:].astype(float)
    stack = [(np.arange(len(signed)), np.arange(len(test)), list(range(width - 1)), 0)]
    correct = 0
    while stack:
        inside, tested, free, label = stack.pop()
        total = classes[inside].sum(axis=0)
        if total.max() > 1e-6:
            label = int(total[1] > total[0] + 1e-6)
        if total.min() <= 1e-6 or not free:
            correct += int((test[tested, 0] == label).sum())
            continue
        ones = features[np.ix_(inside, free)].T @ classes[inside]
        split = best_split(ones, total, free)
        rest = [f for f in free if f != split]
        for value in (0, 1):
            stack.append(
                (
                    inside[signed[inside, 1 + split] == value],
                    tested[test[tested, 1 + split] == value],
                    rest,
                    label,
                )
            )
    return correct / len(test)


@numba.njit(nogil=True)
def numba_tree(patterns, which, test, tested, groups, theta, rng):
    """Correct answers on clean rows; a draw for each record and group.

    Parameters
    ----------
    patterns : uint8, shape (m, width)
        Different rows of the training part, the class in column 0.
    which : int, shape (n,)
        Row of each record.
    test, tested : uint8 (u, width - 1) and int (u, 2)
        Different features of the test part, and records of each class that have them.
    """
    m, width = patterns.shape
    order, owner = rng.permutation(width), np.empty(width, np.int64)
    for i in range(width):
        owner[order[i]] = i * groups // width
    signed = np.zeros((m, 1 << groups))
    for row in which:
        flips = 0
        for j in range(groups):
            if rng.random() >= theta:
                flips |= 1 << j
        signed[row, flips] += 1
    for j in range(groups):
        for row in range(m):
            for flips in range(1 << groups):
                if not flips >> j & 1:
                    a, b = signed[row, flips], signed[row, flips | 1 << j]
                    signed[row, flips] = (theta * a - (1 - theta) * b) / (2 * theta - 1)
                    signed[row, flips | 1 << j] = (theta * b - (1 - theta) * a) / (2 * theta - 1)
    n = m << groups
    cells, weights, size = np.empty((n, width), np.uint8), np.empty(n), 0
    for row in range(m):
        for flips in range(1 << groups):
            if signed[row, flips] != 0:
                for i in range(width):
                    cells[size, i] = patterns[row, i] ^ (flips >> owner[i] & 1)
                weights[size] = signed[row, flips]
                size += 1
    inside, there = np.arange(size), np.arange(len(test))
    stack = [(0, size, 0, len(test), 0, 0)]
    ones, correct = np.empty((width - 1, 2)), 0
    while stack:
        low, high, first, last, used, label = stack.pop()
        total = np.zeros(2)
        ones[:] = 0.0
        for place in range(low, high):
            cell = inside[place]
            c, weight = cells[cell, 0], weights[cell]
            total[c] += weight
            for f in range(width - 1):
                if cells[cell, 1 + f]:
                    ones[f, c] += weight
        if total.max() > 1e-6:
            label = int(total[1] > total[0] + 1e-6)
        if total.min() <= 1e-6 or used == (1 << (width - 1)) - 1:
            for place in range(first, last):
                correct += tested[there[place], label]
            continue
        best, split = np.inf, -1
        for f in range(width - 1):
            if used >> f & 1:
                continue
            entropy, every = 0.0, 0.0
            for value in range(2):
                x = max(ones[f, 0] if value else total[0] - ones[f, 0], 0.0)
                y = max(ones[f, 1] if value else total[1] - ones[f, 1], 0.0)
                if x > 0:
                    entropy -= x * np.log(x / (x + y))
                if y > 0:
                    entropy -= y * np.log(y / (x + y))
                every += x + y
            if entropy / every < best - TIE:
                best, split = entropy / every, f
        middle = low
        for place in range(low, high):
            if not cells[inside[place], 1 + split]:
                inside[place], inside[middle] = inside[middle], inside[place]
                middle += 1
        cut = first
        for place in range(first, last):
            if not test[there[place], split]:
                there[place], there[cut] = there[cut], there[place]
                cut += 1
        used |= 1 << split
        # The whole tree, as the others grow it, also where nobody is tested.
        stack.append((low, middle, first, cut, used, label))
        stack.append((middle, high, cut, last, used, label))
    return correct


def numba_parts(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, ...]:
    """What :func:`numba_tree` takes, made once."""
    patterns, which = np.unique(train, axis=0, return_inverse=True)
    rows, of = np.unique(test[:, 1:], axis=0, return_inverse=True)
    tested = np.zeros((len(rows), 2), np.int64)
    np.add.at(tested, (of.ravel(), test[:, 0]), 1)
    return patterns, which.ravel(), rows, tested


def pandas_repeat(train: pd.DataFrame, test: pd.DataFrame, groups: int, rng) -> float:
    """Section 4 of the paper, as a reader would write it; the class is the first column."""
    names, n = list(train.columns), len(train)
    dealt = [
        [names[i] for i in part] for part in np.array_split(rng.permutation(len(names)), groups)
    ]
    disguised = train.copy()
    for group in dealt:
        flipped = rng.random(n) >= THETA
        disguised.loc[flipped, group] = 1 - disguised.loc[flipped, group]
    step = np.array([[THETA, 1 - THETA], [1 - THETA, THETA]])
    M = np.ones((1, 1))
    for _ in dealt:
        M = np.kron(M, step)

    def proportion(event: dict[str, int]) -> float:
        reported = []
        for flips in product((0, 1), repeat=groups):
            inside = pd.Series(True, index=disguised.index)
            for flip, group in zip(flips, dealt, strict=True):
                for name in group:
                    if name in event:
                        inside &= disguised[name] == (event[name] ^ flip)
            reported.append(inside.mean())
        return float(np.linalg.solve(M, reported)[0])

    target, features = names[0], names[1:]

    def grow(event: dict[str, int], tested: pd.DataFrame, label: int) -> int:
        total = np.array([proportion({**event, target: c}) for c in (0, 1)])
        if total.max() > 1e-9:
            label = int(total[1] > total[0] + 1e-9)
        free = [name for name in features if name not in event]
        if total.min() <= 1e-9 or not free:
            return int((tested[target] == label).sum())
        ones = np.array(
            [[proportion({**event, name: 1, target: c}) for c in (0, 1)] for name in free]
        )
        split = free[best_split(ones, total, list(range(len(free))))]
        return sum(
            grow({**event, split: value}, tested[tested[split] == value], label) for value in (0, 1)
        )

    return grow({}, test, 0) / len(test)


def engine_of(name: str, groups: int) -> BinaryID3:
    frame = datasets.load(name).iloc[:10_000]
    book = Codebook.from_toml(codebook_path(name)).binarise(frame, "midrange")
    records = book.encode(frame)
    assert book.target is not None
    sample = Sample.draw(records, book.target, 0.8, 1 << 63, False, 1)
    design = RandomGroups(book.names, groups, THETA, "redrawn")
    return BinaryID3(Setting(sample, design, {"learner": "id3"}, 1, 1 << 63 | 1))


def arrays_of(engine: BinaryID3) -> tuple[np.ndarray, np.ndarray]:
    sample = engine.setting.sample
    order = [sample.records.codebook.index(name) for name in engine.setting.names]
    codes = np.ascontiguousarray(sample.records.codes[:, order])
    return codes[: sample.n_train], codes[sample.n_train :]


def agree(engine: BinaryID3, groups: int, repeats: int) -> None:
    """Stop if NumPy's trees do not score as ours do on average."""
    train, test = arrays_of(engine)
    rng = np.random.default_rng(2)
    ours = engine.run(0, 400)["correct"] / len(test)
    parts = numba_parts(train, test)
    others = {
        "NumPy": [numpy_repeat(train, test, groups, rng) for _ in range(repeats)],
        "numba": [numba_tree(*parts, groups, THETA, rng) / len(test) for _ in range(400)],
    }
    for name, other in others.items():
        error = np.std(ours) * np.sqrt(1 / len(other) + 1 / len(ours))
        if abs(np.mean(other) - ours.mean()) > 5 * error:
            sys.exit(f"{name} has mean accuracy {np.mean(other):.5f}, ours {ours.mean():.5f}")


def main() -> None:
    seconds: dict[str, list[float]] = {}
    claims = []
    for name, floor in FLOORS.items():
        small = name != "adult"
        for groups in (1, 2, 3):
            engine = engine_of(name, groups)
            train, test = arrays_of(engine)
            rng = np.random.default_rng(1)
            agree(engine, groups, 60 if small else 12)

            def by_numpy(train=train, test=test, groups=groups, rng=rng) -> int:
                numpy_repeat(train, test, groups, rng)
                return 1

            def ours(engine=engine, repeats=1_000 if small else 100) -> int:
                engine.run(0, repeats)
                return repeats

            parts = numba_parts(train, test)

            def by_numba(parts=parts, groups=groups, rng=rng) -> int:
                for _ in range(50):
                    numba_tree(*parts, groups, THETA, rng)
                return 50

            contestants = {"NumPy": by_numpy, "plain numba": by_numba, "ours": ours}
            times = interleave(contestants, 9 if small else 5)
            if small:
                frames = [
                    pd.DataFrame(part, columns=engine.setting.names) for part in (train, test)
                ]

                def by_pandas(frames=frames, groups=groups, rng=rng) -> int:
                    pandas_repeat(*frames, groups, rng)
                    return 1

                times |= interleave({"pandas": by_pandas}, 3)
            label = f"{name}, {groups} group{'s' if groups > 1 else ''}"
            seconds |= {f"{label}: {key}": values for key, values in times.items()}
            found = ratio(times, "NumPy", "ours")
            claims.append(Claim(f"{label}, NumPy over ours", found, least=floor))
            found = ratio(times, "plain numba", "ours")
            claims.append(Claim(f"{label}, plain numba over ours", found, least=1))
    report(f"ID3 under multi-group flips, theta = {THETA}: one repeat", seconds, claims)


if __name__ == "__main__":
    main()
