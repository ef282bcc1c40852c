"""The closed loop: retrieve, run, judge, extract, consolidate, task by task.

tasks         questions with their right answers, parsed from files
settings      every choice of a loop in one value, with a digest
resources     shared by the runs of a loop: source, models, tools, sandboxes
run_stages    one run: begin, execute, judge, score, learn
rollouts      several runs of one task side by side, compared
history       the runs and extractions that a bank already has of a task
closed_loop   one task after the other; resumable
guide_run     a run that writes a guide to an ontology

The public names below are imported on first use.
"""

from typing import TYPE_CHECKING

from rbank_es.system.registry import exports

if TYPE_CHECKING:
    from rbank_es.loop.closed_loop import (
        TaskResult as TaskResult,
        run_closed_loop as run_closed_loop,
        run_matts_parallel as run_matts_parallel,
    )
    from rbank_es.loop.guide_run import Guide as Guide, write_guide as write_guide
    from rbank_es.loop.rollouts import Spread as Spread
    from rbank_es.loop.settings import LoopSettings as LoopSettings
    from rbank_es.loop.tasks import Task as Task, load_tasks as load_tasks
    from rbank_es.models.model_choice import LmChoice as LmChoice


__getattr__, __dir__ = exports(
    __name__,
    {
        ".closed_loop": "TaskResult run_closed_loop run_matts_parallel",
        ".guide_run": "Guide write_guide",
        ".rollouts": "Spread",
        ".settings": "LoopSettings",
        ".tasks": "Task load_tasks",
        "..models.model_choice": "LmChoice",
    },
)
