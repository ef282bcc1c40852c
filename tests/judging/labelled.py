"""Labelled cases over the lights, for measuring judges: an id, the task, the query, the answer, and the label.

The rules of certainty were made with the kinds of `SEEN` in mind. Those of `UNSEEN` were labelled before they were
first measured, and no rule was changed after that. Labels say whether the query gives exactly what the task asks, on
the data and on any other lights.
"""

from __future__ import annotations

from rbank_es.lab.calibration import Case


def _case(id: str, right: bool, task: str, sparql: str, answer: str = "see the query", **more: str) -> Case:
    return Case(id=id, query=task, agent_sparql=sparql, agent_answer=answer, expert_verdict=right, **more)  # type: ignore[arg-type]


NAMES = "Which lighthouses are there?"
DARK = "Which lighthouses have no fog signal?"
COUNT = "How many lighthouses are there?"

SEEN: tuple[Case, ...] = (
    _case("plain", True, NAMES, "SELECT ?l { ?l a lt:Lighthouse }"),
    _case("no such class", False, NAMES, "SELECT ?l { ?l a lt:LightTower }"),
    _case("no such property", False, "Who keeps the lights?", "SELECT ?k { ?l lt:isKeptBy ?k }"),
    _case("unknown in an option", True, NAMES, "SELECT ?l { ?l a lt:Lighthouse OPTIONAL { ?l lt:nickname ?n } }"),
    _case("unknown in a branch", True, NAMES, "SELECT ?l { { ?l a lt:Lighthouse } UNION { ?l a lt:LightTower } }"),
    _case("yes or no of nothing", True, "Is there a submarine?", "ASK { ?x a lt:Submarine }", "No."),
    _case(
        "number of nothing",
        True,
        "How many submarines are there?",
        "SELECT (COUNT(?x) AS ?n) { ?x a lt:Submarine }",
        "0",
    ),
    _case("empty and right", True, "Which lights are named Atlantis?", 'SELECT ?l { ?l lt:name "Atlantis" }', "None."),
    _case("empty and wrong", False, "Which hazards are there?", "SELECT ?h { ?h a lt:Hazard }", "None."),
    _case("not SPARQL", False, NAMES, "the class lt:Lighthouse"),
    _case("changes data", False, NAMES, "DELETE WHERE { ?l a lt:Lighthouse }"),
    _case("stopped", False, NAMES, "", "", outcome="forced_at_limit"),
    _case("prose that is right", True, COUNT, "", "There are nine."),
    _case("an engine's fault", False, NAMES, "SELECT ?l { ?l a lt:Lighthouse FILTER(lt:nearby(?l)) }"),
)

UNSEEN: tuple[Case, ...] = (
    _case("plain count", True, COUNT, "SELECT (COUNT(DISTINCT ?l) AS ?n) { ?l a lt:Lighthouse }", "9"),
    _case("made-up predicate", False, "How high is each tower?", "SELECT ?l ?h { ?l lt:heightOfTower ?h }"),
    _case("made-up class beside a true one", False, NAMES, "SELECT ?l { ?l a lt:Lighthouse, lt:Beacon99 }"),
    _case(
        "unknown in a test that nothing has", True, DARK, "SELECT ?l { ?l a lt:Lighthouse MINUS { ?l lt:siren ?f } }"
    ),
    _case(
        "unknown in a filter", True, NAMES, "SELECT ?l { ?l a lt:Lighthouse FILTER NOT EXISTS { ?l a lt:LightTower } }"
    ),
    _case(
        "unknown in a path of alternatives", True, "Names?", "SELECT ?n { ?l a lt:Lighthouse ; lt:name|lt:title ?n }"
    ),
    _case("unknown that may be skipped", True, NAMES, "SELECT ?l { ?l a/lt:kindOf* lt:Lighthouse }"),
    _case("unknown that must be walked", False, NAMES, "SELECT ?l { ?l a/lt:kindOf+ lt:Lighthouse }"),
    _case("unknown within a subselect", False, NAMES, "SELECT ?l { { SELECT ?l { ?l lt:kind lt:Lighthouse } } }"),
    _case("limited", False, "Select all lighthouses", "SELECT ?l { ?l a lt:Lighthouse } LIMIT 3"),
    _case("nothing at all", False, NAMES, "", " "),
    _case("cut off brackets", False, NAMES, "SELECT ?l { ?l a lt:Lighthouse"),
    _case("failed", False, NAMES, "", "", outcome="failed"),
    _case(
        "empty because none",
        True,
        "Which lighthouses are pink?",
        'SELECT ?l { ?l a lt:Lighthouse ; lt:name "Pink" }',
        "None.",
    ),
)
