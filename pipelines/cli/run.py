"""Run the application and report every error as one sentence, with an exit status of its own (docs/reference/exit-codes.md)."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer

from fingerprint.core import private_files
from fingerprint.core.credentials import mask_credentials
from fingerprint.core.errors import FingerprintError
from fingerprint.core.extras import how_to_install
from fingerprint.core.sanitize import printable

EXIT_PROBLEMS_FOUND = 1  # a check ran to its end and found something
EXIT_ERROR = 2  # usage, input, settings or a dependency: one sentence on standard error
EXIT_REFUSED = 3  # the promotion gate, or the proof of a device, refused
EXIT_NO_HISTORY = 4  # scoring began without history and found nothing
EXIT_UNEXPECTED = 70  # a defect: a traceback on standard error
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141

# Thresholds of the garbage collector: new objects before a collection of the youngest, and collections before one of the older
# generations. With Python's 700, 10 and 10, imports cause some seven hundred collections, and one batch causes several.
COLLECTOR_THRESHOLDS = (20_000, 20, 20)

EXTRAS = {  # the extra that installs each optional package
    "argon2": "web",
    "authlib": "web",
    "fastapi": "web",
    "httpx2": "web",
    "joserfc": "web",
    "starlette": "web",
    "uvicorn": "web",
    "confluent_kafka": "confluent",
    "distributed": "scale",
    "kafka": "kafka",
    "maxminddb": "enrichment",
    "torch": "train",
    "tritonclient": "triton",
}

_SHOULD_BE = re.compile(r"Input should be (?:a valid )?(?P<expected>.+?)(?:, .*)?")
_NOT_ONE_OF = re.compile(r"'(?P<value>.*)' is not one of (?P<choices>.+?)\.?", re.DOTALL)
EXPECTED_WORDS = (  # words of Typer's errors for an expected value, and our words
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("greater than", "above"),
    ("less than", "below"),
    ("integer", "a whole number"),
    ("number", "a number"),
    ("boolean", "true or false"),
)


@contextmanager
def exit_without_teardown() -> Iterator[None]:
    """End the process when the block exits, as soon as its threads have ended and its exit functions have run.

    Python would collect all objects and tear its modules down, which takes half a second of CPU for `score`. It still does after
    an error, or if standard output cannot be written.
    """
    statuses: list[int] = []

    def end_now() -> None:
        with suppress(OSError, ValueError):  # Python itself reports output that could not be written
            for stream in (sys.stdout, sys.stderr):
                if stream:
                    stream.flush()
            for status in statuses:
                os._exit(status)

    atexit.register(end_now)  # the first to be registered is the last to run
    try:
        yield
    except SystemExit as ended:
        statuses.append(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        raise


def run() -> NoReturn:
    """Run the application with the arguments of the process, and exit."""
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    private_files.restrict_new_files()
    sys.excepthook = lambda *error: print(_masked_traceback(error[1]), end="", file=sys.stderr)
    from pipelines.cli.app import app_for

    try:
        status = app_for(sys.argv[1:])(prog_name="fingerprint", standalone_mode=False)
    except FingerprintError as error:
        _exit_with_error(str(error))
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a bare group: its help
            typer.echo(str(error))
            sys.exit(0)
        _exit_with_error(usage_sentence(error))
    except ModuleNotFoundError as error:
        if (extra := EXTRAS.get((error.name or "").partition(".")[0])) is None:
            _exit_unexpected(error)
        _exit_with_error(f"{error.name} is not installed: {how_to_install(extra)} has it")
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PIPE_CLOSED)
    except OSError as error:
        _exit_with_error(_file_error(error))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        _exit_unexpected(error)
    sys.exit(status if isinstance(status, int) else 0)


def _file_error(error: OSError) -> str:
    """Return the sentence for an error of a file or folder; for a full disk, with the folders to check."""
    where = error.filename or "input or output"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        from tempfile import gettempdir

        return f"{where}: the disk is full; make room for results, the bank and temporary files (TMPDIR is {gettempdir()})"
    return f"{where}: {error.strerror or error}"


def usage_sentence(error: Exception) -> str:
    """Return the sentence for a usage error: what is wrong, what is expected or probably meant, and where the help is.

    Errors are distinguished by the names of their classes, because Typer does not export these.
    """
    kind, text = type(error).__name__, str(getattr(error, "message", error))
    context = getattr(error, "ctx", None)
    if kind == "NoSuchOption":
        sentence = f"there is no option {error.option_name}{_did_you_mean(_close_options(error))}"  # type: ignore[attr-defined]
    elif kind == "MissingParameter":
        sentence = f"{_parameter_name(error)} is missing{_purpose(error)}"
    elif kind == "BadParameter":
        sentence = _bad_value(_parameter_name(error), text)
    elif unknown := re.match(r"No such command '(.+?)'", text):
        sentence = f"there is no command {unknown[1]}{_did_you_mean(_close_commands(unknown[1], context))}"
    elif extra := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.+)\)", text):
        sentence = f"{extra[1]} is one argument too many"
    elif wants := re.match(r"Option '(.+?)' requires", text):
        sentence = f"{wants[1]} needs a value"
    else:
        sentence = text[:1].lower() + text[1:].rstrip(".")
    return f"{sentence} (see `{context.command_path if context else 'fingerprint'} --help`)"


def _bad_value(name: str, text: str) -> str:
    text = text.removeprefix("Value error, ").rstrip(".")
    if found := _NOT_ONE_OF.fullmatch(text):
        choices = re.findall(r"'(.*?)'", found["choices"])
        meant = _did_you_mean(_close(found["value"], choices))
        return f"{name} is {found['value']!r}, and has to be one of {', '.join(choices)}{meant}"
    if found := _SHOULD_BE.fullmatch(text):
        return f"{name} has to be {_in_our_words(found['expected'])}"
    return f"{name}: {text}"


def _in_our_words(expected: str) -> str:
    for theirs, ours in EXPECTED_WORDS:
        if expected.startswith(theirs):
            return ours + expected[len(theirs) :]
    return expected


def _parameter_name(error: Any) -> str:
    """Return `--days`, or the metavar of an argument."""
    parameter = error.param
    if parameter is None:
        return str(error.param_hint or "a value")
    if parameter.param_type_name == "argument":
        return (
            str(parameter.metavar or parameter.name).strip("[].")
            if parameter.metavar
            else str(parameter.name).upper()
        )
    return str(max(parameter.opts, key=len))


def _purpose(error: Any) -> str:
    """Return the help of a missing parameter, as the end of a sentence."""
    text = str(getattr(error.param, "help", "") or "").rstrip(".")
    first = text.partition(" ")[0]
    return f": {text[:1].lower() if first[1:].islower() else text[:1]}{text[1:]}" if text else ""


def _close_commands(name: str, context: Any) -> list[str]:
    return _close(name, context.command.list_commands(context)) if context else []


def _close_options(error: Any) -> list[str]:
    """Return the options that are similar, compared without their dashes, which would make all options similar."""
    by_name = {each.lstrip("-"): each for each in error.possibilities or ()}
    return [by_name[each] for each in _close(error.option_name.lstrip("-"), list(by_name))]


def _close(text: str, known: list[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(text, known)


def _did_you_mean(names: Any) -> str:
    return f"; did you mean {' or '.join(list(names)[:3])}?" if names else ""


def _exit_with_error(sentence: str) -> NoReturn:
    """Print an error in one line and exit; names of files and records in it cannot control the terminal."""
    print(f"fingerprint: {printable(mask_credentials(' '.join(sentence.split())))}", file=sys.stderr)
    sys.exit(EXIT_ERROR)


def _exit_unexpected(error: BaseException) -> NoReturn:
    print(_masked_traceback(error), end="", file=sys.stderr)
    sys.exit(EXIT_UNEXPECTED)


def _masked_traceback(error: BaseException) -> str:
    """Return the traceback without passwords, which libraries repeat from URLs, and without control characters."""
    return printable(mask_credentials("".join(traceback.format_exception(error))), lines=True)
