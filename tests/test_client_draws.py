"""Python and a browser draw from one law: the same words give the same report, for every family."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import checks
import chromium
import numpy as np
import pytest
from respondent import IN_BROWSER
from strategies import codebook_of

from ppdm_dask import Records
from ppdm_dask.collect.blocks import client_blocks
from ppdm_dask.designs import Design, Permanent
from ppdm_dask.designs.sets import unpack
from ppdm_dask.randomness import Source, Stream

pytestmark = IN_BROWSER

DESIGNS = [design for designs in checks.EXAMPLES.values() for design in designs]
KEPT = 300
"""Words of a source that the browser is given: no step of one report needs more."""


class Recorded(Stream):
    """Draws that are written down, by the key of their source."""

    simulated = True

    def __init__(
        self, seed: int, key: tuple[int, ...] = (), to: dict[str, list[str]] | None = None
    ):
        self.seed, self.key, self.words = seed, key, {} if to is None else to

    def child(self, *key: int) -> Recorded:
        return Recorded(self.seed, self.key + key, self.words)

    def source(self, *key: int) -> Source:
        path = self.key + key
        drawn = np.random.Philox(np.random.SeedSequence(self.seed, spawn_key=path))
        kept = self.words.setdefault("/".join(map(str, path[1:])), [])

        def draw(n: int) -> np.ndarray:
            words = drawn.random_raw(n)
            kept.extend(map(str, words[: max(KEPT - len(kept), 0)]))
            return words

        return Source(draw)


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Browser]:
    with chromium.browsing() as browser:
        browser.open("about:blank")
        code = (files("ppdm_dask.collect") / "assets" / "draw.js").read_text(encoding="utf-8")
        browser.evaluate(code + "window.draw = draw; 0")
        yield browser


def cases(design: Design, each: int) -> Iterator[tuple[dict[str, list[str]], list[int], list[Any]]]:
    """Words, true codes and report of a person, for people of all kinds."""
    book, rng = codebook_of(design), np.random.default_rng(len(design.attributes))
    for seed in range(each):
        codes = np.array([[rng.integers(k) for k in book.shape]])
        stream = Recorded(seed)
        made = design.disguise(Records(codes, book), stream)
        report: list[Any] = [int(code) for code in made.codes[0]]
        for name, bits in made.sets.items():
            within = unpack(bits, len(book[name].categories))[0]
            report[book.index(name)] = [int(v) for v in np.flatnonzero(within)]
        yield stream.words, codes[0].tolist(), report


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: f"{d.id}-{'x'.join(map(str, d.shape))}")
def test_the_same_words_give_the_same_report(browser: chromium.Browser, design: Design) -> None:
    blocks = client_blocks(design, codebook_of(design))
    found = list(cases(design, 40))
    call = """(([blocks, cases]) => cases.map(([words, codes]) =>
        draw.report(blocks, codes, key => {
            const left = [...words[key.join("/")]];
            return () => BigInt(left.shift());
        })))"""
    given = json.dumps([blocks, [(words, codes) for words, codes, _ in found]])
    assert browser.evaluate(f"{call}({given})") == [report for *_, report in found]


TWO_STAGES = [
    (design, j)
    for design in DESIGNS
    for j, block in enumerate(design.blocks)
    if isinstance(block, Permanent)
]


@pytest.mark.parametrize(
    ("design", "j"), TWO_STAGES, ids=[f"{d.id}-{d.blocks[j].first.id}" for d, j in TWO_STAGES]
)
def test_a_symbol_that_is_held_is_drawn_from_alike(
    browser: chromium.Browser, design: Design, j: int
) -> None:
    block, rng = design.blocks[j], np.random.default_rng(j)
    assert isinstance(block, Permanent)
    own = client_blocks(design, codebook_of(design))[j]
    block_alone = {**own, "places": list(range(len(block.shape)))}
    found = []
    for seed in range(40):
        codes, held = (
            np.array([[rng.integers(k) for k in shape]])
            for shape in (block.shape, block.first.reported_shape)
        )
        stream = Recorded(seed, (0, *own["key"]))
        kept = block.first.sample(codes, stream.child(0), 0)
        report = block.again.sample(held, stream.child(1), 0)
        given = [each[0].tolist() for each in (codes, held)]
        found.append((stream.words, *given, [kept[0].tolist(), report[0].tolist()]))
    call = """(([block, cases]) => cases.map(([words, codes, held]) => {
        const open = key => {
            const left = [...words[key.join("/")]];
            return () => BigInt(left.shift());
        };
        return [draw.permanent(block, codes, open), draw.report([block], codes, open, [held])];
    }))"""
    given_all = json.dumps([block_alone, [case[:3] for case in found]])
    assert browser.evaluate(f"{call}({given_all})") == [case[3] for case in found]


def test_secret_words_are_even(browser: chromium.Browser) -> None:
    # 64 bits over 20,000 words: each is 1 as often as 0, and no word comes twice.
    ones, different = browser.evaluate(
        """(() => {
            const word = draw.secret(), words = [...Array(20000)].map(word);
            const ones = [...Array(64).keys()].map(
                i => words.filter(w => (w >> BigInt(i)) & 1n).length);
            return [ones, new Set(words).size];
        })()"""
    )
    assert different == 20_000
    # Five standard errors: a false alarm in 30,000 runs.
    assert np.abs(np.array(ones) - 10_000).max() < 5 * np.sqrt(20_000 / 4)
