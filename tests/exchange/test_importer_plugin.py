"""An importer of another package, in Python and on the command line."""

from pathlib import Path

from tests.plugins import install, run_with

PLUGIN = '''
"""Items as lines `title <tab> content`, below a heading."""
import hashlib
import uuid

from rbank_es.events import MemoriesExtracted
from rbank_es.events.items import Item
from rbank_es.exchange import IMPORTERS, Importer, ImportUnit, Parsed


def parse(path, data):
    items = [Item.make(*line.split("\\t")) for line in data.decode().splitlines()[1:]]
    extraction = MemoriesExtracted(
        id=str(uuid.uuid5(uuid.NAMESPACE_OID, hashlib.sha256(data).hexdigest())),
        kind="manual",
        heads=tuple(item.head for item in items),
        candidates=tuple(item.text for item in items),
    )
    return Parsed(path=path, form="tabs", units=(ImportUnit((extraction,)),), decided=False)


TABS = Importer(
    form="tabs",
    about="a table of items (title, content)",
    recognise=lambda opening: opening.data.startswith(b"title\\tcontent"),
    parse=parse,
)


def add():
    IMPORTERS.add("tabs", TABS)
'''
PROGRAM = """
from rbank_es.exchange import import_paths
code, said = command("import", "./bank", "items.tsv", "--create", "--json")
with Bank.open("./bank") as bank:
    again = import_paths(bank, ["items.tsv"])
    titles = [item.title for item in bank.get([row["id"] for row in bank.as_of().items()])]
result = {"file": json.loads(said)["files"][0], "again": again.appended, "titles": titles,
          "refused": command("import", "./bank", "broken.tsv")}
"""


def test_an_importer_of_another_package_is_asked_after_ours(tmp_path: Path) -> None:
    """What it takes is planned, checked and appended once; the message for an unknown form names it."""
    install(tmp_path, "tab_importer", PLUGIN)
    (tmp_path / "items.tsv").write_text("title\tcontent\nOne\tFirst.\nTwo\tSecond.\n")
    (tmp_path / "broken.tsv").write_text("name\n")
    result = run_with(tmp_path, PROGRAM, tmp_path)
    assert (result["file"]["form"], result["file"]["items_added"], result["again"]) == ("tabs", 2, 0)
    assert result["titles"] == ["One", "Two"]
    assert result["refused"][0] == 2 and "a table of items (title, content)" in result["refused"][1]


def test_an_importer_that_returns_something_else_is_named(tmp_path: Path) -> None:
    install(tmp_path, "tab_importer", PLUGIN.replace("return Parsed(", "return dict("))
    (tmp_path / "items.tsv").write_text("title\tcontent\nOne\tFirst.\n")
    code, said = run_with(tmp_path, 'result = command("import", "./bank", "items.tsv", "--create")', tmp_path)
    assert code == 2
    assert "the plugin 'tabs' of the package tab_importer can't be used: it returned dict, not Parsed" in said
