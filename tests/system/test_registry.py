"""Registries: names lead to homes, and whatever a stranger registered is his own fault, by name."""

from pathlib import Path

import pytest

from rbank_es.errors import BadInput, BadPlugin
from rbank_es.system.registry import Registry


def registry() -> Registry[object]:
    return Registry("lamp", {"lit": "rbank_es.errors:BadInput"})


def test_a_name_is_taken_once() -> None:
    with pytest.raises(BadInput, match="choose another name"):
        registry().add("lit", "somewhere:ELSE")


@pytest.mark.parametrize("home", ["no_such_package:LAMP", "rbank_es.no_such_module:LAMP", "rbank_es.errors:NoSuchLamp"])
def test_a_home_that_is_not_there_is_a_fault_of_the_plugin_that_named_it(home: str) -> None:
    lamps = registry()
    lamps.add("broken", home)
    with pytest.raises(BadPlugin, match="'broken' has its home at"):
        lamps.get("broken")


def test_a_package_that_an_implementation_needs_is_reported_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_more.py").write_text("import no_such_dependency\nLAMP = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    lamps = registry()
    lamps.add("needy", "needs_more:LAMP")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        lamps.get("needy")
