"""The simulated learner: a seeded solver, judge and extractor in the place of models, beside a real bank.

SIMULATED: nothing in here says anything about a language model. It shows what the bank's own rules (retrieval,
consolidation, forgetting, correction) do with what a learner of known strengths and errors gives them.

    world          families of tasks, drawn from a seed
    solver         success, verdicts and lessons by given chances
    simulation     one simulation: tasks in order, lessons, checks by people, and the skill that it leads to
    learner_memory the memory of a simulated learner: a bank in memory
    study          a grid of simulations, and its results
    poisoned_bank, repair, swept_assumptions   the studies in docs/studies
"""
