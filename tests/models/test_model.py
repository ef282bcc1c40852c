"""dspy as it is loaded: its warnings don't appear amid what a command prints."""

from __future__ import annotations

import subprocess
import sys

import pytest

WARN = """
import logging, warnings
from rbank_es.models.dspy_calls import load_dspy
{before}
load_dspy()
logging.getLogger("dspy.predict.react").warning("logged amid the table")
exec("warnings.warn('warned amid the table')", {{"warnings": warnings, "__name__": "dspy.predict"}})
"""


def printed(before: str) -> str:
    return subprocess.run([sys.executable, "-c", WARN.format(before=before)], capture_output=True, text=True).stderr


@pytest.mark.slow
def test_dspys_warnings_go_to_whoever_configures_logging_and_not_to_the_terminal() -> None:
    assert printed("") == ""
    configured = printed("logging.basicConfig(format='app: %(message)s')")
    assert configured == "app: logged amid the table\n"
