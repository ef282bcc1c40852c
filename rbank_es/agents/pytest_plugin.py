"""The plugin of pytest: `pytest --rbank BANK` makes a test of an agent a verdict on the runs recorded within it.

pytest imports this module in each of its runs in an environment, so it loads nothing of a bank before it is asked to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rbank_es.bank import Bank


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    words = "a bank: each test is a verdict on the runs of agents that are recorded in the bank within the test"
    parser.getgroup("rbank", "a bank of an agent's lessons").addoption("--rbank", metavar="BANK", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Open the bank, once for each process of the tests; a new one is made by the first. Raises `UsageError`."""
    place = config.getoption("--rbank")
    if not place:
        return
    from rbank_es.agents.verdicts_of_tests import VerdictsOfTests
    from rbank_es.bank import Bank
    from rbank_es.errors import RBankError

    try:
        bank = Bank.open(place, create=True)
    except (RBankError, OSError) as error:
        raise pytest.UsageError(f"--rbank {place}: {error}") from None
    config.pluginmanager.register(VerdictsOfTests(bank), "rbank-verdicts")


@pytest.fixture
def rbank(pytestconfig: pytest.Config) -> Iterator[Bank]:
    """Give the bank of `--rbank`; without the option one in memory, for the test alone."""
    verdicts: Any = pytestconfig.pluginmanager.get_plugin("rbank-verdicts")
    if verdicts is not None:
        yield verdicts.bank
        return
    from rbank_es.bank import Bank

    with Bank.create("memory:") as bank:
        yield bank
