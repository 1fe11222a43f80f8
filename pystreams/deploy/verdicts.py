"""What becomes of a store or an internal topic in a deploy, and how that is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Verdict(Enum):
    """What becomes of the state, from the best to the worst."""

    NEW = "new, starts empty"
    FILLED = "new, filled from its topic"
    KEPT = "kept"
    REBUILT = "rebuilt from its changelog"
    UNSURE = "kept, and may be wrong"
    EMPTY = "starts empty, old data orphaned"
    REFUSED = "refused at the start"
    WRONG = "wrong results"

    @property
    def loses(self) -> bool:
        """Whether something is lost, or may be, or the application would not run."""
        return self in {Verdict.UNSURE, Verdict.EMPTY, Verdict.REFUSED, Verdict.WRONG}


_ORDER = list(Verdict)


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference, and what it does.

    Attributes:
        what: The difference, in words.
        cure: What to do about it; "" if nothing.
    """

    verdict: Verdict
    what: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of one store or topic.

    Attributes:
        kind: "store" or "repartition topic".
        findings: All differences, in the order in which they were found.
        declared: The user's call that declares it, as `count at orders.py:12`; "" if not known.
    """

    kind: str
    name: str
    findings: tuple[Finding, ...] = ()
    declared: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings; kept without any."""
        found = (finding.verdict for finding in self.findings)
        return max(found, key=_ORDER.index, default=Verdict.KEPT)

    def worst(self) -> tuple[Finding, ...]:
        """Return the findings that make the verdict."""
        return tuple(finding for finding in self.findings if finding.verdict is self.verdict)

    def in_words(self) -> str:
        """Return it, with what makes the verdict and the cure, as one sentence."""
        told = self.worst()
        what = "; ".join(finding.what for finding in told)
        cures = ". ".join(dict.fromkeys(finding.cure for finding in told if finding.cure))
        declared = f" ({self.declared})" if self.declared else ""
        return f"{self.kind} {self.name!r}{declared}: {what}" + (f". {cures}" if cures else "")

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "kind": self.kind,
            "name": self.name,
            "verdict": self.verdict.value,
            "loses": self.verdict.loses,
            "declared": self.declared,
            "findings": [
                {"verdict": each.verdict.value, "what": each.what, "cure": each.cure}
                for each in self.findings
            ],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a deploy does to the state of an application.

    Attributes:
        judgements: One for each store and repartition topic of either topology.
        warnings: What else is to be known of the new topology; nothing of it concerns state.
        refused: Why a start with the configuration would be refused, whatever there is of state.
    """

    judgements: tuple[Judgement, ...] = field(default=())
    warnings: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def loses(self) -> bool:
        """Whether something is lost, or may be, or the application would not run."""
        return bool(self.refused) or any(judged.verdict.loses for judged in self.judgements)

    def of(self, *verdicts: Verdict) -> list[Judgement]:
        """Return those of these verdicts."""
        return [judged for judged in self.judgements if judged.verdict in verdicts]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "loses": self.loses,
            "judgements": [judged.as_dict() for judged in self.judgements],
            "warnings": list(self.warnings),
            "refused": list(self.refused),
        }

    @classmethod
    def of_all(
        cls,
        judgements: Iterable[Judgement],
        warnings: Iterable[str] = (),
        refused: Iterable[str] = (),
    ) -> Comparison:
        """Return the comparison of these, the worst first."""
        ordered = sorted(judgements, key=lambda judged: -_ORDER.index(judged.verdict))
        return cls(tuple(ordered), tuple(warnings), tuple(refused))
