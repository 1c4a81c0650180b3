"""The command ``draft-oracle`` and what becomes of errors.

Exit codes: 0 done; 1 the machine failed (disk full, out of memory); 2 input or usage is wrong; 3 done, but for what
could not be read and was left out (--keep-going); 128 + n stopped by signal n (130: interrupted from the keyboard).
Modules that compute are imported inside the commands: ``--help`` must be instant.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import click

# Matrices here are tiny and the threads are ours: BLAS threads would only wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
# Arrow's memory is for the next batch: given back to the system at once, it would be cleared anew each time; never
# given back, a command of several walks would hold what each of them needed most (100 MB more). Milliseconds.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "200")

from oracle.cli import signals, standard_output, streams
from oracle.cli.ablate import ablate
from oracle.cli.bench import bench
from oracle.cli.convert import convert
from oracle.cli.crossover import crossover
from oracle.cli.explain import explain
from oracle.cli.fit import fit
from oracle.cli.levers import levers
from oracle.cli.observe import observe
from oracle.cli.plan_sweep import plan_sweep
from oracle.cli.policies import policies
from oracle.cli.pool import pool
from oracle.cli.recommend import recommend
from oracle.cli.record import record
from oracle.cli.report import report
from oracle.cli.run import run
from oracle.cli.traces import score, solve
from oracle.cli.validate import validate
from oracle.errors import MOST_FAULTS_SHOWN, InputError, InputWarning


class ReaderGone(BaseException):
    """The reader of a pipe went away; click would call that a failure."""


@contextmanager
def _reader_may_go() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGone from error


class InOrderOfWork(click.Group):
    """Lists commands in the order of the work, not of the alphabet."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the options, among them --help and --version, which print; a pipe that closes early is no fault."""
        with _reader_may_go():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command asked for; a pipe that closes early is no fault of it."""
        with _reader_may_go():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order in which they were added."""
        return list(self.commands)


def _version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"draft-oracle {metadata.version('draft-oracle')}")
        ctx.exit()


@click.group(cls=InOrderOfWork, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def group() -> None:
    """Cost-optimal draft lengths for speculative decoding, from recorded traces.

    \b
    draft-oracle run cases/tiny-moe           everything in one go, on recorded traces
    draft-oracle fit rounds.parquet -o model.json
    draft-oracle score traces.parquet --model model.json

    Times are milliseconds. Exit codes: 0 done, 1 the machine failed (disk full, out of memory),
    2 input or usage is wrong, 3 done but for what could not be read (--keep-going),
    128 + n stopped by signal n.
    """


for _command in (
    convert,
    record,
    validate,
    plan_sweep,
    fit,
    solve,
    score,
    ablate,
    explain,
    policies,
    recommend,
    crossover,
    observe,
    levers,
    pool,
    report,
    run,
    bench,
):
    group.add_command(_command)


def _print_warning(message: Warning | str, category: type[Warning], *_where: Any, **_more: Any) -> None:
    kind = "warning" if issubclass(category, UserWarning) else category.__name__
    click.echo(f"{kind}: {message}", err=True)


def _drop_stdout() -> None:
    """Nothing more may be flushed to it when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line; faults go to stderr, never a traceback for a wrong input."""
    streams.provide()
    standard_output.name()
    warnings.simplefilter("always", InputWarning)
    warnings.showwarning = _print_warning
    try:
        signals.heed()
        code = group.main(prog_name="draft-oracle", standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        many = len(error.faults)
        shown = "" if many <= MOST_FAULTS_SHOWN else f", the first {MOST_FAULTS_SHOWN} shown"
        click.echo(f"error: {error}" if many == 1 else f"error: {many} faults{shown}\n{error}", err=True)
        code = 2
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except signals.Stopped as stopped:
        click.echo(stopped.in_words(), err=True)
        code = 128 + stopped.number
    except click.Abort:
        code = 130
    except (ReaderGone, BrokenPipeError):
        _drop_stdout()  # what the reader has read is all it wanted
        code = 0
    except (OSError, MemoryError) as error:
        click.echo(f"error: {error or type(error).__name__}", err=True)
        code = 1
    sys.exit(code or 0)
