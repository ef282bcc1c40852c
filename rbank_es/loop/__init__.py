"""The closed loop: retrieve, run, judge, extract, consolidate, task by task; and what is made of single runs.

tasks         questions, read from files
settings      every choice of a loop in one value, with a digest
equipment     what the runs of a loop share: the source, the executor, its sandboxes
sandboxes     those that were begun ahead, and why there are none
one_run       one task, run once; recorded whatever happens
learning      the verdict on a run, and what is learnt of it
history       what a bank already has of which task
closed_loop   one task after the other; resumable
rollouts      several runs of one task, and what can be learnt by comparing them
guide         a long text about an ontology, written once by an agent

The public names below are found on first use.
"""

from typing import TYPE_CHECKING

from rbank_es.registry import exports

if TYPE_CHECKING:
    from rbank_es.loop.closed_loop import TaskResult, run_closed_loop, run_matts_parallel
    from rbank_es.loop.guide_run import Guide, write_guide
    from rbank_es.loop.rollouts import Spread
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task, load_tasks
    from rbank_es.models.choice import LmChoice

__all__ = [
    "Guide",
    "LmChoice",
    "LoopSettings",
    "Spread",
    "Task",
    "TaskResult",
    "load_tasks",
    "run_closed_loop",
    "run_matts_parallel",
    "write_guide",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "Guide": "rbank_es.loop.guide_run",
        "LmChoice": "rbank_es.models.choice",
        "LoopSettings": "rbank_es.loop.settings",
        "Spread": "rbank_es.loop.rollouts",
        "Task": "rbank_es.loop.tasks",
        "TaskResult": "rbank_es.loop.closed_loop",
        "load_tasks": "rbank_es.loop.tasks",
        "run_closed_loop": "rbank_es.loop.closed_loop",
        "run_matts_parallel": "rbank_es.loop.closed_loop",
        "write_guide": "rbank_es.loop.guide_run",
    },
)
