"""docs/kubernetes.md: its commands name what is there, its snippets are right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from tests.docker.dockerfile import ROOT

PAGE = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_commands_name_files_that_are_there() -> None:
    files = re.findall(r"--(?:file|filename) (\S+)", "".join(snippets("sh")))
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_an_application_s_own_dockerfile_is_one_that_hadolint_likes() -> None:
    (text,) = snippets("dockerfile")
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, "--no-color", "-"], input=text, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_every_alert_is_explained() -> None:
    rules = yaml.safe_load((ROOT / "docker" / "monitoring" / "alerts.yaml").read_text("utf-8"))
    named = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert sorted(named) == sorted(re.findall(r"^\| `(Pystreams\w+)`", PAGE, re.MULTILINE))


def test_scraping_in_kubernetes_gives_the_label_that_alerts_group_by() -> None:
    (text,) = snippets("yaml")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    targets = {rule.get("target_label") for rule in job["relabel_configs"]}
    assert "application" in targets
    assert job["job_name"] == "pystreams"
