"""Sentences for respondents on what a report gives away, whatever its reader knew before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ppdm_dask.audit.certainty import bare_attributes
from ppdm_dask.audit.measures import epsilon_of
from ppdm_dask.collect.words import filled
from ppdm_dask.designs.permanent import Permanent

if TYPE_CHECKING:
    from ppdm_dask.collect.questionnaire import Questionnaire
    from ppdm_dask.designs.base import Design

__all__ = ["sentences"]


def sentences(
    questionnaire: Questionnaire, design: Design, needed: Sequence[str], language: str
) -> list[str]:
    """What a report gives away, block by block, and of answers that a model needs.

    Parameters
    ----------
    questionnaire : Questionnaire
    design : Design
    needed : sequence of str
        Attributes that the model needs.
    language : str
    """
    return list(_Sentences(questionnaire, language).all(design, needed))


class _Sentences:
    """Those of a questionnaire in one language."""

    def __init__(self, questionnaire: Questionnaire, language: str) -> None:
        self.questionnaire, self.words = questionnaire, questionnaire.words_in(language)
        texts = {each.attribute: each.text for each in questionnaire.question}
        self.tested = None
        if (found := questionnaire.classifier) is not None:
            self.tested = found.attribute
            texts[found.attribute] = found.text
        self.texts = {name: questionnaire.say(text, language) for name, text in texts.items()}

    def all(self, design: Design, needed: Sequence[str]) -> Iterator[str]:
        bare = bare_attributes(design)
        for block in design.blocks:
            if names := [name for name in block.attributes if name not in bare]:
                yield from self.chances(block, names)
                yield self.odds("odds", names, epsilon_of(block))
                if isinstance(block, Permanent):
                    yield self.odds("lasting", names, block.epsilon_of_waves(None).value)
        if self.tested is not None:
            yield from self.model(self.tested, needed)

    def chances(self, block: Design, names: Iterable[str]) -> Iterator[str]:
        """How probable it is that the own answer is sent."""
        for name in names:
            if (chances := _kept(block, name)) is not None:
                low, high = (f"{self.number(100 * f(chances))} %" for f in (min, max))
                key = "same" if low == high else "same_between"
                if name == self.tested:
                    key = f"model_{key}"
                yield self.say(key, question=self.texts[name], chance=low, low=low, high=high)

    def odds(self, key: str, names: Iterable[str], epsilon: float | None) -> str:
        """The factor by which odds can change; that answers are ruled out where there is none."""
        if epsilon is None or math.isinf(epsilon):
            key = "no_odds" if key == "odds" else f"{key}_no_odds"
            return self.say(key, attributes=self.called(names))
        return self.say(key, attributes=self.called(names), ratio=self.number(math.exp(epsilon)))

    def model(self, tested: str, needed: Sequence[str]) -> Iterator[str]:
        """What a model looked at, and what else is sent of that."""
        asked = self.questionnaire
        met = self.called(name for name in asked.asked if name in needed)
        yield self.say("model_from", question=self.texts[tested], attributes=met)
        if asked.private:
            yield self.say("model_private", attributes=self.called(asked.private))
        # What is sent of these answers otherwise: they themselves, or that a question was put.
        told = [
            question.attribute
            for question in asked.question
            if not question.private and {question.attribute, *question.only_if} & {*needed}
        ]
        if told:
            yield self.say("model_too", attributes=self.called(told))

    def say(self, key: str, **values: str) -> str:
        return filled(self.words[key], **values)

    def number(self, value: float) -> str:
        return f"{value:.3g}".replace(".", self.words["decimal"])

    def called(self, names: Iterable[str]) -> str:
        """Questions in the quotation marks of the language."""
        return ", ".join(self.say("quoted", question=self.texts[name]) for name in names)


def _kept(block: Design, name: str) -> list[float] | None:
    """Chance by category that the own answer is reported; None where reports are no answers."""
    if block.kind != "symbol" or block.reported_shape != block.shape:
        return None
    alone = block if block.attributes == (name,) else block.marginal([name])
    return None if alone is None else [float(p) for p in alone.matrix().diagonal()]
