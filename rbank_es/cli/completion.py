"""`completion`: the script that completes commands, options, choices, banks and files in bash, zsh or fish."""

from __future__ import annotations

import click

from rbank_es.cli.shared.command_registry import COMPLETE_VARIABLE, PROGRAM, command
from rbank_es.cli.shared.output import echo_json, write_bytes

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    "rbank-es completion bash >> ~/.bashrc",
    "rbank-es completion zsh >> ~/.zshrc",
    "rbank-es completion fish > ~/.config/fish/conf.d/rbank.fish",
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str, as_json: bool) -> None:
    """Print the script that makes SHELL complete what is typed after rbank-es: commands, options, banks and files.

    The script asks rbank-es itself at each Tab, so it stays right when commands change. bash needs version 4.4.
    """
    from click.shell_completion import get_completion_class

    from rbank_es.cli.shared.command_registry import application

    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    script = kind.source_template % kind(application, {}, PROGRAM, COMPLETE_VARIABLE).source_vars()
    if as_json:
        echo_json({"shell": shell, "script": script})
    else:
        write_bytes(script.encode())
