"""The Dockerfile, stage by stage; its steps can be carried out in a directory, without a daemon."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = ROOT / "docker" / "Dockerfile"
FINAL = ""
"""The stage that has no name: what is built if none is asked for."""


@dataclass(frozen=True)
class Stage:
    """A stage: what it begins with, and its instructions in order, each a word and the rest."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all_of(self, word: str) -> list[str]:
        """Return what instructions of one kind say."""
        return [rest for found, rest in self.instructions if found == word]

    def last(self, word: str) -> str:
        """Return what the last instruction of a kind says."""
        return self.all_of(word)[-1]

    def environment(self) -> dict[str, str]:
        """Return the variables that it sets, `$PATH` being left as it is."""
        words = [word for rest in self.all_of("ENV") for word in shlex.split(rest)]
        return dict(word.split("=", 1) for word in words)


def stages() -> dict[str, Stage]:
    """Return the stages of the Dockerfile by name."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text("utf-8"), flags=re.MULTILINE)
    found: dict[str, Stage] = {}
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            present = found[name] = Stage(name, base)
        elif word:
            present.instructions.append((word, rest))
    return found


class Build:
    """Carries out stages of the Dockerfile below a directory, which stands for `/` of all of them.

    What comes from other images must be on this machine: Python, and uv.

    Args:
        root: The directory.
        uv: The program.
    """

    def __init__(self, root: Path, uv: str) -> None:
        self.root = root
        self._uv = uv
        self._stages = stages()
        self._made: set[str] = set()

    def make(self, name: str) -> None:
        """Carry out a stage, and before it those that it needs."""
        stage = self._stages[name]
        if name in self._made or stage.base not in self._stages:
            return
        self._made.add(name)
        self.make(stage.base)
        directory = Path("/")
        for word, rest in stage.instructions:
            if word == "WORKDIR":
                directory = Path(rest)
                self.path(rest).mkdir(parents=True, exist_ok=True)
            elif word == "COPY":
                self._copy(shlex.split(rest), directory)
            elif word == "RUN" and not rest.startswith(("pip install", "useradd", "apt-get")):
                self._run(rest, directory)

    def path(self, path: str | Path) -> Path:
        """Return where a path of the image is."""
        return self.root / str(path).lstrip("/")

    def words(self, text: str) -> list[str]:
        """Return an instruction in its exec form, its paths where they are here."""
        return [self._here(word) for word in json.loads(text)]

    def environment(self, name: str) -> dict[str, str]:
        """Return what a process of a stage's image finds in its environment."""
        found = self._environment_of(name)
        return {variable: self._here(value) for variable, value in found.items()}

    def _environment_of(self, name: str) -> dict[str, str]:
        stage = self._stages.get(name)
        if stage is None:
            return {"PATH": os.environ["PATH"]}
        before = self._environment_of(stage.base)
        own = stage.environment()
        path = own.get("PATH", "$PATH").replace("$PATH", before["PATH"])
        return before | own | {"PATH": path}

    def _copy(self, words: list[str], directory: Path) -> None:
        source_root = ROOT
        if words[0].startswith("--from="):
            self.make(words.pop(0).removeprefix("--from="))
            source_root = self.root
        *sources, target = words
        for source in sources:
            found = source_root / source.lstrip("/")
            goal = self.path(directory / target) / ("" if found.is_dir() else found.name)
            if found.resolve() == goal.resolve():
                continue
            if found.is_dir():
                shutil.copytree(found, goal, dirs_exist_ok=True)
            else:
                shutil.copy(found, goal)

    def _run(self, command: str, directory: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        own: Mapping[str, str] = {**kept, **self.environment("tools"), "UV_COMPILE_BYTECODE": "0"}
        done = subprocess.run(
            ["sh", "-euc", self._here(command).replace("uv ", f"{self._uv} ", 1)],
            cwd=self.path(directory),
            env=own,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"

    def _here(self, text: str) -> str:
        """Return a text with the image's own directories where they are here."""
        return re.sub(r"(?<![\w/.])/(?=(?:app|wheels|source|var/lib)\b)", f"{self.root}/", text)
