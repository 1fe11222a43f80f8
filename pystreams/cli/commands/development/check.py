"""`pystreams check`: what a new version of a topology makes of the state of the old one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pystreams.cli.application.configuration import without_broker
from pystreams.cli.application.described_start import Start, fingerprint_with
from pystreams.cli.application.group_topology import topology_of_group
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.display.own_output import own_output
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.options.groups import ApplicationOptions, application_options, complete_file
from pystreams.cli.plain_text import in_lines, in_one_line
from pystreams.errors import TopologyError

if TYPE_CHECKING:
    from pystreams.deploy.fingerprint import Fingerprint
    from pystreams.deploy.verdicts import Comparison

_IS_NO_TOPOLOGY = (
    "is neither a topology (a .py) nor what `pystreams describe --json` of this version prints: "
    "make it again, with --json"
)


@click.command()
@click.argument(
    "topologies", metavar="[OLD] NEW", nargs=-1, required=True, shell_complete=complete_file
)
@click.option(
    "--group",
    metavar="APPLICATION.ID",
    help="Ask the broker what the group runs: without OLD, NEW is compared with that; with OLD, "
    "it is made sure that OLD is that.",
)
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
@application_options
@click.pass_context
def check(
    ctx: click.Context,
    topologies: tuple[str, ...],
    *,
    group: str | None,
    as_json: bool,
    application: ApplicationOptions,
) -> None:
    """Tell what a deploy does to state: what NEW makes of what OLD has left.

    Each of OLD and NEW is a topology (FILE or MODULE:ATTRIBUTE), the JSON that `pystreams describe
    --json` has printed, or a state directory (<state.dir>/<application.id>) in which an application
    has run. Topologies are loaded in a process each, and nothing is changed. A broker is asked with
    --group alone, the one that -c, the environment, --config or the `config` in NEW's module names:
    a group notes which topology has committed its offsets, with what that keeps, and NEW needs no
    OLD. Where that is too large for the group, or not known to it, NEW needs none if
    it is the same as far as state goes.

    What the start of NEW would refuse with the configuration that is given is told, and counts as a
    loss: names that are generated and must not be, missing serdes. Where it names no broker it is
    not all that NEW runs with, and missing serdes are a warning.

    Each store and repartition topic gets a verdict: kept; rebuilt from its changelog; new; kept,
    and may be wrong; starts empty, old data orphaned; refused at the start; wrong results. The last
    four count as a loss.

    \b
    Exit codes:
      0    nothing is lost
      1    something is, or may be; NEW would not start; or the group runs another topology than
           OLD, or does not say what it runs
      2    wrong usage, topology or configuration
      3    no broker answers

    \b
    Examples:
      pystreams check deployed.json orders.py
      pystreams check /var/lib/pystreams/orders shop.orders:builder --json
      pystreams check orders.py --group orders --config production.toml
    """
    from pystreams.deploy.comparison import compare

    if len(topologies) > 2 or (len(topologies) == 1 and group is None):
        raise click.UsageError("name OLD and NEW, or NEW and the --group that it is deployed over")
    with streams_errors_as_exit_codes():
        first, last = topologies[0], topologies[-1]
        compared_with = ""
        if group is None:
            old, new = _fingerprint(first, application), _fingerprint(last, application)
        else:
            former = [_fingerprint(reference, application) for reference in topologies[:-1]]
            new, config = _with_config(last, application)
            old = former[0] if former else new
            running = topology_of_group(group, application, config)
            if former:
                running.check(first, old)
            else:
                old, new = running.beside(first, new)
                compared_with = running.told()
        found = compare(old, new)
    if compared_with and not as_json:
        click.echo(in_one_line(compared_with))
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=2))
    else:
        _show(found)
    if found.loses:
        ctx.exit(ExitCode.FAILED)


def _fingerprint(reference: str, application: ApplicationOptions) -> Fingerprint:
    path = Path(reference)
    if path.is_dir():
        return _of_directory(path)
    if _is_json(path):
        return _of_file(path)
    return _described(reference, application)


def _is_json(path: Path) -> bool:
    return path.suffix == ".json" or (path.is_file() and path.suffix != ".py")


def _with_config(
    reference: str, application: ApplicationOptions
) -> tuple[Fingerprint, Mapping[str, Any]]:
    """Return a fingerprint, and the `config` of its module, which may name the brokers; else none.

    It is loaded here for that, once: what is in `config` may be no JSON, or a secret.
    """
    path = Path(reference)
    if path.is_dir() or _is_json(path):
        return _fingerprint(reference, application), {}
    with own_output():
        loaded = load_topology(reference)
        built, config = without_broker(replace(application, dev=False), loaded)
        start = Start.of(built, config)
    return fingerprint_with(built, config, start), loaded.config


def _of_directory(directory: Path) -> Fingerprint:
    from pystreams.runtime.maintenance.earlier_topology import FINGERPRINT_FILE

    found = [directory / FINGERPRINT_FILE, *sorted(directory.glob(f"*/{FINGERPRINT_FILE}"))]
    files = [file for file in found if file.is_file()]
    if len(files) > 1:
        names = ", ".join(str(file.parent) for file in files)
        raise click.UsageError(f"{directory} has several applications: name one of {names}")
    if not files:
        raise click.UsageError(
            f"{directory} has no {FINGERPRINT_FILE}: no application has run there since pystreams "
            "writes one. Name the old topology's file, or what `pystreams describe --json` prints"
        )
    return _of_file(
        files[0],
        "is damaged, or another version of pystreams has written it: name the old topology's file, "
        "or what `pystreams describe --json` prints",
    )


def _of_file(file: Path, why: str = _IS_NO_TOPOLOGY) -> Fingerprint:
    from pystreams.deploy.fingerprint_shape import is_fingerprint

    try:
        found: Any = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise click.UsageError(f"{file} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        found = None
    if not is_fingerprint(found):
        raise click.UsageError(f"{file} {why}")
    return found


def _described(reference: str, application: ApplicationOptions) -> Fingerprint:
    """Return a topology's fingerprint, read in a process of its own.

    Two versions of one program have modules of the same names.
    """
    command = [sys.executable, "-m", "pystreams", "describe", "--json"]
    for setting in application.settings:
        command += ["-c", setting]
    if application.config_file is not None:
        command += ["--config", str(application.config_file)]
    answer = subprocess.run(
        [*command, "--", reference], capture_output=True, text=True, check=False
    )
    if answer.returncode:
        told = re.split(r"^Error: ", answer.stderr, maxsplit=1, flags=re.MULTILINE)[-1]
        raise TopologyError(told.strip())
    # Programs that a module starts print beside it.
    start = f"\n{answer.stdout}".rindex("\n{\n")
    printed: Fingerprint = json.JSONDecoder().raw_decode(answer.stdout, start)[0]
    return printed


def _show(found: Comparison) -> None:
    from pystreams.deploy.verdicts import Verdict

    for refusal in found.refused:
        click.echo(f"{Verdict.REFUSED.value.upper()}: {in_lines(refusal)}")
    for judged in found.judgements:
        at = f" ({judged.declared})" if judged.declared else ""
        click.echo(in_one_line(f"{judged.verdict.value.upper()}: {judged.kind} {judged.name}{at}"))
        for finding in judged.findings:
            if finding.verdict not in {Verdict.NEW, Verdict.FILLED}:
                click.echo(f"    {in_one_line(finding.what)}")
        for cure in dict.fromkeys(each.cure for each in judged.worst() if each.cure):
            click.echo(f"    -> {in_one_line(cure)}")
    if not found.judgements:
        click.echo("neither topology keeps anything")
    elif not found.loses:
        click.echo("nothing is lost")
    for warning in found.warnings:
        click.echo(f"\nWARNING: {in_lines(warning)}", err=True)
