"""The entry point `duraton`: the commands, and how a failure ends."""

import os
import sys
import traceback
from typing import Any

import typer

from duraton_api.cli import (
    dev,
    doctor,
    flow_state,
    jobs,
    logs,
    prices,
    project,
    replays,
    runs,
    send,
    serve,
    show,
    sql,
    topics,
    worker,
)
from duraton_api.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandFailedError, describe
from duraton_api.version import VERSION

# The parser's own errors: Typer brings a copy of Click of its own and
# exports these only.
UsageError: Any = typer.BadParameter.__base__
ParserError: Any = UsageError.__base__

DEBUG_VARIABLE = "DURATON_DEBUG"

app = typer.Typer(
    name="duraton",
    help="Durable workflows on an event log, embedded or on Kafka.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        show.line(f"duraton {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Durable workflows on an event log, embedded or on Kafka."""


app.command("dev")(dev.dev)
app.command("serve")(serve.serve)
app.command("worker")(worker.worker)
app.command("send")(send.send)
replays.add_to(runs.app)
app.add_typer(runs.app, name="runs")
app.add_typer(jobs.app, name="jobs")
app.command("flow-state")(flow_state.flow_state)
app.add_typer(logs.app, name="log")
app.add_typer(topics.app, name="topics")
app.add_typer(prices.app, name="prices")
app.add_typer(project.app, name="project")
app.command("sql")(sql.sql)
app.command("doctor")(doctor.doctor)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its status.

    Args:
        arguments: What follows the program's name; the process's own where None.
    """
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: What follows the program's name; the process's own where None.

    Returns:
        The exit status: 0, 1 where it was refused or failed, 2 for wrong usage.
    """
    try:
        status = app(args=arguments, prog_name="duraton", standalone_mode=False)
        sys.stdout.flush()
    except ParserError as error:
        return _usage(error)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_FAILED
    except BrokenPipeError:
        show.silence_stdout()
        return 0
    except Exception as error:  # noqa: BLE001 people get a message, never a traceback
        return _failed(error)
    return status if isinstance(status, int) else 0


def _usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # a group alone: its help says it all
        show.note(error.format_message())
        return EXIT_USAGE
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "duraton"
    show.failure(error.format_message(), "usage", f"See `{command} --help`.")
    return EXIT_USAGE


def _failed(error: Exception) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    told = describe(error)
    if told is None:
        message = f"something went wrong inside duraton: {type(error).__name__}: {error}"
        told = (message, "internal", f"Set {DEBUG_VARIABLE}=1 to see where, and report it.")
    show.failure(*told)
    return error.status if isinstance(error, CommandFailedError) else EXIT_FAILED


if __name__ == "__main__":
    main()
