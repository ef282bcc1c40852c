"""Verdicts from what happened: a table of commands with their outputs, and of turns with several test runs."""

import pytest

from rbank_es.agents.transcripts.outcome_evidence import evidence_of
from rbank_es.agents.transcripts.transcript_run import Ending, ToolUse, TranscriptRun

PYTEST_RED = "F.\n=== 1 failed, 1 passed in 0.11s ==="
PYTEST_GREEN = ".. [100%]\n2 passed in 0.10s"


def run_of(*commands: tuple[str, int | None, str], ending: Ending = "done") -> TranscriptRun:
    """A turn whose calls are these commands, with exit code and output."""
    run = TranscriptRun(form="claude-code", host="h", key=("k",), session="s", line=1, prompts=["p"], ending=ending)
    for number, (command, code, output) in enumerate(commands):
        call = ToolUse(id=str(number), name="Bash", arguments={"command": command}, exit_code=code)
        call.answer(output)
        run.add(call)
    return run


def verdict(run: TranscriptRun) -> str | None:
    found = evidence_of(run)
    return found.verdict if found else None


@pytest.mark.parametrize(
    ("command", "code", "output", "expected"),
    [
        ("pytest -q", 0, PYTEST_GREEN, "success"),
        ("pytest -q", 1, PYTEST_RED, "failure"),
        ("pytest -q", 2, "1 error in 0.05s", "failure"),
        ("pytest -q", 5, "no tests ran in 0.01s", None),
        ("pytest -q", 4, "ERROR: usage", None),
        ("pytest -q", None, PYTEST_RED, "failure"),
        ("pytest -q", None, "", None),
        # Masked exits: the summary decides, not the code of what follows.
        ("pytest -q | tail -3", 0, PYTEST_RED, "failure"),
        ("pytest -q 2>&1 | tail -3", 0, PYTEST_GREEN, "success"),
        ("pytest -q | tail -1", 0, "", None),
        ("pytest -q || true", 0, PYTEST_RED, "failure"),
        ("pytest -q || true", 0, "", None),
        ("pytest -q; echo done", 0, "done", None),
        ("pytest -q; echo done", 0, f"{PYTEST_RED}\ndone", "failure"),
        ("set -o pipefail; pytest -q | tail -1", 1, "", "failure"),
        ("pytest -q && git push", 1, "rejected", None),
        ("pytest -q && git push", 0, "", "success"),
        ("pytest -q &", 0, "", None),
        # What ran no tests, or turned their exit code round, and a summary that the command itself spells.
        ("! pytest -q >/dev/null", 0, "", None),
        ("! pytest -q", 0, PYTEST_RED, "failure"),
        ("true || pytest -q", 0, "", None),
        ("pytest -q >/dev/null; echo '5 passed in 0.1s'", 0, "5 passed in 0.1s", None),
        ("pytest -q || echo '5 passed in 0.1s'", 0, PYTEST_RED, "failure"),
        ("make -n test", 0, "pytest -q", None),
        ("make -ki test", 0, "", None),
        ("make -kj4 test", 0, "", "success"),
        ("mvn -q test -DskipTests", 0, "", None),
        ("mvn test", 0, "[INFO] Tests are skipped.", None),
        ("./gradlew build -x test check", 0, "BUILD SUCCESSFUL", None),
        ("ctest -N", 0, "Total Tests: 3", None),
        ("pytest --setup-plan", 0, "", None),
        ("pytest -vx", 0, "", "success"),
        ("npm test --if-present", 0, "", None),
        ("go test -run Nothing ./...", 0, "ok  \tpkg\t0.01s [no tests to run]", None),
        ("go test -run One ./...", 0, "ok  \ta\t0.01s [no tests to run]\nok  \tb\t0.01s", "success"),
        # A command in front failed, or the tests broke off: no failure of theirs.
        ("cd nowhere && pytest -q", 1, "bash: line 1: cd: nowhere: No such file or directory", None),
        ("make build && pytest -q", 2, "cc: error: x.c", None),
        ("npm ci && npm test", 1, "npm ERR! network", None),
        ("npm ci && npm test", 1, "Tests:       1 failed, 2 passed, 3 total", "failure"),
        ("cd src && npm test", 1, "expected 1 to be 2", "failure"),
        (". venv/bin/activate && A=1 && make test", 2, "make: *** [test] Error 1", "failure"),
        ("pytest", 3, "INTERNALERROR> Traceback", None),
        ("pytest -q", 2, "!!!!!!! KeyboardInterrupt !!!!!!!\n2 passed in 1.0s", None),
        ("pytest -q", -9, "Killed", None),
        ("pytest -q", 0, "2 skipped in 0.10s", None),
        ("pytest -q", 0, "1 passed, 2 skipped in 0.10s", "success"),
        ("npm test", 0, "  0 passing (1ms)", None),
        # Wrappers, assignments, folders before it.
        ("yarn jest src/a.test.js", 1, "Tests: 1 failed, 5 passed, 6 total", "failure"),
        ("cd src && API_KEY=x python3.12 -m pytest -x tests/test_a.py", 1, PYTEST_RED, "failure"),
        ("uv run --frozen pytest", 0, PYTEST_GREEN, "success"),
        ("timeout 60 .venv/bin/pytest -q", 0, PYTEST_GREEN, "success"),
        ("timeout 60 pytest -q", 124, "", None),
        ("env CI=1 nice -n 5 poetry run pytest", 0, PYTEST_GREEN, "success"),
        ("coverage run -m pytest", 1, PYTEST_RED, "failure"),
        # Other runners.
        ("python -m unittest", 1, "Ran 3 tests in 0.01s\n\nFAILED (failures=1)", "failure"),
        ("python -m unittest | cat", 0, "Ran 3 tests in 0.01s\n\nOK", "success"),
        ("python -m unittest", 0, "Ran 0 tests in 0.00s\n\nOK", None),
        ("npm test", 1, "Tests:       1 failed, 2 passed, 3 total", "failure"),
        ("npm run test:unit -- --silent | tail -5", 0, "Tests:       3 passed, 3 total", "success"),
        ("npx vitest run", 0, "\x1b[32m Tests  2 passed (2)\x1b[0m", "success"),
        ("npx vitest run | cat", 0, " Test Files  1 failed (1)\n      Tests  1 failed | 2 passed (3)", "failure"),
        ("npm test", 1, "npm ERR! Missing script: test", None),
        ("npx mocha || true", 0, "  2 passing (10ms)\n  1 failing", "failure"),
        ("go test ./...", 1, "--- FAIL: TestSum\nFAIL\texample/sum\t0.1s", "failure"),
        ("go test ./... | tail -2", 0, "ok  \texample/sum\t0.1s", "success"),
        ("go test ./...", 0, "?   \texample\t[no test files]", None),
        ("go test ./...", 0, "?   \ta\t[no test files]\nok  \tb\t0.1s", "success"),
        ("cargo test", 101, "test result: FAILED. 1 passed; 1 failed", "failure"),
        ("cargo test 2>&1 | tail", 0, "test result: ok. 5 passed; 0 failed", "success"),
        ("cargo test", 0, "test result: ok. 5 passed; 0 failed\ntest result: ok. 0 passed; 0 failed", "success"),
        ("cargo test", 0, "test result: ok. 0 passed; 0 failed", None),
        ("make test", 2, "make: *** [test] Error 1", "failure"),
        ("make check", 0, "all good", "success"),
        ("make test", 2, "make: *** No rule to make target 'test'.  Stop.", None),
        ("mvn -q test", 1, "Tests run: 5, Failures: 1, Errors: 0", "failure"),
        ("./gradlew clean test", 0, "BUILD SUCCESSFUL", "success"),
        ("bundle exec rspec", 1, "5 examples, 1 failure", "failure"),
        ("ctest --test-dir build | tail -1", 0, "100% tests passed, 0 tests failed out of 7", "success"),
        ("dotnet test", 1, "Failed!  - Failed:     1, Passed:     2", "failure"),
        # All skipped, or some.
        ("python -m unittest", 0, "Ran 3 tests in 0.000s\n\nOK (skipped=3)", None),
        ("python -m unittest", 0, "Ran 3 tests in 0.000s\n\nOK (skipped=2)", "success"),
        ("mvn test", 0, "Tests run: 3, Failures: 0, Errors: 0, Skipped: 3\nBUILD SUCCESS", None),
        ("mvn test", 0, "Tests run: 13, Failures: 0, Errors: 0, Skipped: 3", "success"),
        ("bundle exec rspec", 0, "3 examples, 0 failures, 3 pending", None),
        ("bundle exec rspec", 0, "3 examples, 0 failures, 1 pending", "success"),
        ("npx jest", 0, "Tests:       3 skipped, 3 total", None),
        ("npx jest", 0, "Tests:       1 skipped, 3 passed, 4 total", "success"),
        ("npx vitest run", 0, " Tests  3 skipped (3)", None),
        ("dotnet test", 0, "Skipped! - Failed:     0, Passed:     0, Skipped:     3", None),
        # No tests at all.
        ("grep -rn pytest .", 0, "a.py: 2 passed", None),
        ("pip install pytest", 0, "Successfully installed", None),
        ("echo 'pytest -q; 1 failed'", 0, "pytest -q; 1 failed", None),
        ("pytest --collect-only -q", 0, "2 tests collected", None),
        ("pytest -q", 127, "bash: pytest: command not found", None),
        ("python -m pytest", 1, "/usr/bin/python: No module named pytest", None),
        ("git commit -m 'pytest passes'", 0, "[main 4f2c1aa] pytest passes", None),
        ("make", 1, "error", None),
    ],
)
def test_a_command_with_its_output_gives_the_verdict_that_it_proves(
    command: str, code: int | None, output: str, expected: str | None
) -> None:
    assert verdict(run_of((command, code, output))) == expected


RED, GREEN = ("pytest -q", 1, PYTEST_RED), ("pytest -q", 0, PYTEST_GREEN)


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ((GREEN, RED), "failure"),
        ((RED, GREEN), "success"),
        ((RED, GREEN, ("git push", 1, "rejected")), "success"),
        ((RED, ("pytest -q tests/test_a.py", 0, "1 passed in 0.1s")), None),
        ((("pytest tests/test_a.py", 1, PYTEST_RED), GREEN), "success"),
        ((("pytest tests/test_a.py", 1, PYTEST_RED), ("pytest -v tests/test_a.py", 0, PYTEST_GREEN)), "success"),
        ((("pytest a.py", 1, PYTEST_RED), ("pytest b.py", 1, PYTEST_RED), ("pytest b.py", 0, PYTEST_GREEN)), None),
        ((("pytest -k one", 1, PYTEST_RED), ("pytest -k two", 0, PYTEST_GREEN)), None),
    ],
)
def test_the_latest_tests_count_and_heal_only_what_they_ran(
    commands: tuple[tuple[str, int, str], ...], expected: str | None
) -> None:
    assert verdict(run_of(*commands)) == expected


@pytest.mark.parametrize("ending", ["interrupted", "failed", "open"])
def test_a_turn_that_did_not_end_by_itself_has_no_verdict(ending: Ending) -> None:
    assert verdict(run_of(GREEN, ending=ending)) is None
