"""What code in the sandbox can't do: every attempt is refused, or does nothing to anybody else.

Attempts go through Python and through JavaScript, which Python can reach (`js`). Each runs in a real session. A file
of the host and an environment variable hold a secret that must not come out; a server waits for connections that must
not come in; files that attempts would make must not be there. Attempts that Deno doesn't survive, because a session may
open nothing once it is ready, end the session and nothing else.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbank_es.sandbox import deno
from tests.sandbox import sandboxes

sandboxes.require_dspy()
from rbank_es.sandbox.interpreter import Sandbox, SessionLost, StepFailed  # noqa: E402
from rbank_es.sandbox.session import start_session  # noqa: E402

pytestmark = pytest.mark.xdist_group("sandbox")

VARIABLE = "RBANK_TEST_API_KEY"


class Host(NamedTuple):
    """What there is to get at."""

    secret: str
    folder: Path
    server: socket.socket
    sandbox: Sandbox

    @property
    def names(self) -> dict[str, str]:
        """What attempts may name."""
        made = {"file": "secret.txt", "new": "new.txt", "folder": "", "link": "link"}
        paths = {name: str(self.folder / part) for name, part in made.items()}
        runner = str(sandboxes.runtime().runner)
        return paths | {"port": str(self.server.getsockname()[1]), "variable": VARIABLE, "runner": runner}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    sandboxes.runtime()
    folder, secret = tmp_path_factory.mktemp("host"), secrets.token_hex(16)
    (folder / "secret.txt").write_text(secret)
    os.environ[VARIABLE] = secret
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        # One that was started when the secret was there to be handed on.
        sandbox = Sandbox(settings=sandboxes.SandboxSettings(restarts=sandboxes.MANY), take_session=start_session)
        sandbox.start()
        yield Host(secret, folder, server, sandbox)
        sandbox.shutdown()
    del os.environ[VARIABLE]


def attempt(host: Host, code: str) -> str:
    """Run an attempt; what came of it, after seeing that nobody was harmed."""
    for name, value in host.names.items():
        code = code.replace(f"<{name}>", value)
    try:
        seen = str(host.sandbox.execute(code))
    except (StepFailed, SessionLost) as error:
        seen = f"refused: {error}"
    assert host.secret not in seen
    assert sorted(path.name for path in host.folder.iterdir()) == ["secret.txt"]
    assert (host.folder / "secret.txt").read_text() == host.secret
    with pytest.raises(BlockingIOError):
        host.server.accept()
    return seen


PYTHON = {
    "read a file": "open('<file>').read()",
    "read a file by another way": "import os; os.read(os.open('<file>', os.O_RDONLY), 100)",
    "list a folder": "import os; os.listdir('<folder>')",
    "read /etc/passwd": "from pathlib import Path; Path('/etc/passwd').read_text()",
    "read the host's environment in /proc": "open('/proc/self/environ').read()",
    "write a file": "open('<new>', 'w').write('x')",
    "link to a file and read the link": "import os; os.symlink('<file>', '/tmp/link'); open('/tmp/link').read()",
    "walk up with dots": "open('/tmp/../../../../..<file>').read()",
    "an environment variable": "import os; os.environ['<variable>']",
    "connect to a port": "import socket; socket.create_connection(('127.0.0.1', <port>), 2)",
    "listen on a port": "import socket; s = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen(); s.accept()",
    "fetch a page": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:<port>/').read()",
    "fetch by Pyodide": "from pyodide.http import pyfetch\nawait pyfetch('http://127.0.0.1:<port>/')",
    "resolve a name": "import socket; socket.create_connection(('localhost', <port>), 2)",
    "start a process": "import subprocess; subprocess.run(['touch', '<new>'], check=True)",
    "start a shell": "import os; os.system('touch <new>')",
    "open a pipe to a shell": "import os; os.popen('touch <new>').read()",
    "fork": "import os; os.fork()",
    "become another program": "import os; os.execv('/bin/sh', ['sh', '-c', 'touch <new>'])",
    "multiprocessing": "import multiprocessing; multiprocessing.Process(target=print).start()",
    "load the C library": "import ctypes; ctypes.CDLL('libc.so.6')",
    "load a module from a file": "import importlib.machinery as m; m.SourceFileLoader('x', '<file>').load_module()",
    "mount a folder of the host": "import pyodide_js; pyodide_js.mountNodeFS('/tmp/mnt', '<folder>')",
    "mount by Emscripten": "import js, pyodide_js\nfrom pyodide.ffi import to_js\n"
    "root = to_js({'root': '<folder>'}, dict_converter=js.Object.fromEntries)\n"
    "pyodide_js.FS.mkdir('/tmp/m'); pyodide_js.FS.mount(pyodide_js.FS.filesystems.NODEFS, root, '/tmp/m')",
    "install a package": "import micropip",
    "load a package": "import pyodide_js\nawait pyodide_js.loadPackage('numpy')\nimport numpy",
    "JavaScript by Pyodide": "from pyodide.code import run_js\nrun_js(\"Deno.readTextFileSync('<file>')\")",
}

JAVASCRIPT = {
    "read a file": "Deno.readTextFileSync('<file>')",
    "open a file": "Deno.openSync('<file>')",
    "list a folder": "[...Deno.readDirSync('<folder>')]",
    "stat a file": "Deno.statSync('<file>')",
    "read the host's environment in /proc": "Deno.readTextFileSync('/proc/self/environ')",
    "read its memory map in /proc": "Deno.readTextFileSync('/proc/self/maps')",
    "open a terminal": "Deno.openSync('/dev/tty')",
    "write a file": "Deno.writeTextFileSync('<new>', 'x')",
    "make a temporary file": "Deno.makeTempFileSync()",
    "link to a file": "Deno.symlinkSync('<file>', '<link>')",
    "link hard to a file": "Deno.linkSync('<file>', '<link>')",
    "rename a file": "Deno.renameSync('<file>', '<new>')",
    "remove a file": "Deno.removeSync('<file>')",
    "change a file's mode": "Deno.chmodSync('<file>', 0o777)",
    "real path": "Deno.realPathSync('<folder>')",
    "all environment variables": "JSON.stringify(Deno.env.toObject())",
    "one environment variable": "Deno.env.get('<variable>')",
    "process.env": "process.env['<variable>']",
    "connect to a port": "Deno.connect({port: <port>, hostname: '127.0.0.1'})",
    "listen on a port": "Deno.listen({port: 0})",
    "serve": "Deno.serve({port: 0}, () => new Response('x')).finished",
    "datagrams": "Deno.listenDatagram({port: 0, transport: 'udp'})",
    "a Unix socket": "Deno.listen({transport: 'unix', path: '<new>'})",
    "resolve a name": "Deno.resolveDns('localhost', 'A')",
    "fetch a page": "fetch('http://127.0.0.1:<port>/')",
    "fetch a file": "fetch('file://<file>').then(r => r.text())",
    "WebSocket": "new WebSocket('ws://127.0.0.1:<port>/')",
    "EventSource": "new Promise((y, n) => { new EventSource('http://127.0.0.1:<port>').onerror = () => n(Error()) })",
    "start a process": "new Deno.Command('/bin/touch', {args: ['<new>']}).outputSync()",
    "start a process otherwise": "Deno.spawn('/bin/touch', ['<new>'])",
    "kill this process's parent": "Deno.kill(Deno.ppid, 'SIGTERM')",
    "load a library": "Deno.dlopen('/lib/x86_64-linux-gnu/libc.so.6', {})",
    "load a native module": "process.dlopen({exports: {}}, '<file>')",
    "the machine's name": "Deno.hostname()",
    "the user": "Deno.uid()",
    "network interfaces": "Deno.networkInterfaces()",
    "import a file": "import('file://<file>')",
    "import from npm": "import('npm:left-pad')",
    "import from a server": "import('https://deno.land/std@0.186.0/io/mod.ts')",
    "import from jsr": "import('jsr:@std/fs')",
    "node:fs": "import('node:fs').then(m => m.readFileSync('<file>', 'utf8'))",
    "node:fs, writing": "import('node:fs').then(m => m.writeFileSync('<new>', 'x'))",
    "node:child_process": "import('node:child_process').then(m => m.execFileSync('/bin/touch', ['<new>']))",
    "node:net": "import('node:net').then(m => new Promise((y, n) => m.connect(<port>, '127.0.0.1', y).on('error', n)))",
    "node:http": "import('node:http').then(m => new Promise((y, n) => m.get({port: <port>}, y).on('error', n)))",
    "node:dns": "import('node:dns/promises').then(m => m.lookup('localhost'))",
    "node:os": "import('node:os').then(m => m.userInfo())",
    "node:sqlite": "import('node:sqlite').then(m => new m.DatabaseSync('<new>'))",
    "node:module": "import('node:module').then(m => m.createRequire('file:///x.js')('<file>'))",
    "node:inspector": "import('node:inspector').then(m => m.open(0))",
    "a worker of a file": "new Promise((y, n) => { new Worker('file://<file>', {type: 'module'}).onerror = n })",
    "node:worker_threads": "import('node:worker_threads').then(m => new m.Worker('<file>'))",
    "keep in localStorage": "localStorage.setItem('a', 'b')",
    "keep in a web cache": "caches.open('x').then(c => c.put('http://x/', new Response('x')))",
    "keep in Deno KV": "Deno.openKv()",
    "change folder": "Deno.chdir('<folder>')",
    "open a file by Deno's own operations": "Deno[Deno.internal].core.ops.op_node_open_sync('<file>', 0, 0)",
    "stat a file by them": "Deno[Deno.internal].core.ops.op_fs_stat_sync('<file>', new Uint32Array(64))",
    "read memory by them": "Deno[Deno.internal].core.ops.op_ffi_ptr_create(4096n)",
    "set a variable by them": "Deno[Deno.internal].core.ops.op_set_env('A', 'b')",
    "eval": "eval('Deno.readTextFileSync(\"<file>\")')",
    "a new function": "new Function('return Deno.readTextFileSync(\"<file>\")')()",
}

HARMLESS = {
    "write where there is no host's folder": (
        "import os; os.makedirs('<folder>'); open('<new>', 'w').write('x'); os.symlink('/etc', '<link>')",
        "None",
    ),
    "descriptors that are open": (
        "import js\nawait js.eval(\"import('node:fs').then(m => { let open = 0; for (let fd = 3; fd < 99; fd++) "
        'try { m.fstatSync(fd); open++ } catch { }; return open })")',
        "0",
    ),
    "ask for a permission": (
        "import js\nawait js.eval(\"Deno.permissions.request({name: 'read'}).then(s => s.state)\")",
        "denied",
    ),
    "ask a person": ("import js\nstr(js.prompt('Your password?'))", "None|jsnull"),
    "environment of Python": ("import os\n'<variable>' in os.environ", "False"),
    "paths of Python": ("import os\nsorted(os.listdir('/'))", r"\['dev', 'home', 'lib', 'proc', 'tmp'"),
    "weaken V8": (
        "import js\nawait js.eval(\"import('node:v8').then(m => m.setFlagsFromString('--allow-natives-syntax'))\")\n"
        "try: js.eval('%GetHeapUsage()'); seen = 'weaker'\nexcept Exception: seen = 'as before'\nseen",
        "as before",
    ),
    "the runner may be read": (
        "import js\nlen(js.Deno.readTextFileSync('<runner>')) > 0",
        r"True|refused: .*os error 24",
    ),
    "where Deno lies may be learned": ("import js\nstr(js.Deno.execPath())", "/.*deno"),
    "the cache may not, once it is ready": (
        "import js\nawait js.eval(\"Deno.permissions.query({name: 'read', path: Deno.args.at(-1).split('=')[1]})"
        '.then(s => s.state)")',
        "prompt|denied",
    ),
}


def _cases(attempts: Iterable[str], *deadly: str) -> list[Any]:
    """The names of attempts. Some cost the session, and so the seconds that the next one takes to start."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in deadly else []) for name in attempts]


@pytest.mark.slow
@pytest.mark.parametrize("what", _cases(PYTHON, "fetch a page", "listen on a port"))
def test_python_can_not(host: Host, what: str) -> None:
    assert attempt(host, PYTHON[what]).startswith("refused: ")


DEADLY = ("a worker of a file", "node:worker_threads", "keep in a web cache", "keep in localStorage")


@pytest.mark.parametrize("what", _cases(JAVASCRIPT, *DEADLY))
def test_javascript_can_not(host: Host, what: str) -> None:
    code = (
        f"import js\nresult = js.eval({JAVASCRIPT[what]!r})\nif hasattr(result, 'then'): result = await result\nresult"
    )
    assert attempt(host, code).startswith("refused: ")


@pytest.mark.parametrize("what", HARMLESS)
def test_it_does_no_harm(host: Host, what: str) -> None:
    code, expected = HARMLESS[what]
    assert re.match(expected, attempt(host, code), re.DOTALL)


def test_a_worker_gets_no_more_than_the_session_has(host: Host) -> None:
    worker = "try { postMessage(Deno.readTextFileSync(`<file>`)) } catch (e) { postMessage(e.name) }"
    made = f"const w = new Worker('data:text/javascript,' + encodeURIComponent({worker!r}), {{type: 'module'}})"
    listening = f"new Promise((y, n) => {{ {made}; w.onmessage = e => y(e.data); w.onerror = n }})"
    assert attempt(host, f"import js\nawait js.eval({listening!r})") == "NotCapable" or host.sandbox.session is None


def test_only_what_fetches_gets_the_hosts_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Proxies and certificates may have any name, and only the fetching process runs no code of an agent."""
    monkeypatch.setenv("SECRET_OF_THE_HOST", "secret")
    runtime = deno.Deno(tmp_path, tmp_path, tmp_path)
    assert "SECRET_OF_THE_HOST" not in runtime.environment(offline=True)
    assert runtime.environment(offline=False)["SECRET_OF_THE_HOST"] == "secret"


@pytest.mark.slow
def test_the_process_gets_nothing_of_the_hosts_environment(host: Host) -> None:
    host.sandbox.start()
    assert host.sandbox.session is not None
    given = Path(f"/proc/{host.sandbox.session.pid}/environ").read_text()
    names = {entry.split("=")[0] for entry in given.split("\0") if entry}
    assert host.secret not in given
    assert names <= {
        *deno.KEPT_ENVIRONMENT,
        "DENO_DIR",
        "DENO_NO_PACKAGE_JSON",
        "DENO_NO_UPDATE_CHECK",
        "NO_COLOR",
        "LC_CTYPE",
    }


@pytest.mark.slow
def test_the_process_may_open_nothing_more_and_leaves_no_core(host: Host) -> None:
    """The second wall: even code that got past Deno's permissions could open neither file nor socket."""
    host.sandbox.start()
    assert host.sandbox.session is not None and host.sandbox.session.is_confined
    told = Path(f"/proc/{host.sandbox.session.pid}/limits").read_text()
    limited = {line[:25].strip(): line[25:].split()[:2] for line in told.splitlines()}
    assert limited["Max open files"] == ["3", "3"]
    assert limited["Max core file size"] == ["0", "0"]
    assert "unlimited" not in limited["Max data size"]


@pytest.mark.slow
def test_nothing_is_kept_from_one_session_to_the_next(host: Host) -> None:
    """Not even by what needs no permission: web storage would be kept in Deno's cache."""
    storage = sandboxes.runtime().cache / "location_data"
    host.sandbox.start()
    for what in ("keep in localStorage", "keep in a web cache"):
        test_javascript_can_not(host, what)
    assert storage.is_file() and not storage.read_bytes()


def test_no_permission_is_granted_but_to_read_two_places() -> None:
    command = sandboxes.runtime().command()
    assert [flag for flag in command if flag.startswith("--allow")] == [
        f"--allow-read={os.path.realpath(sandboxes.runtime().runner)},{os.path.realpath(sandboxes.runtime().cache)}"
    ]
    assert {f"--deny-{name}" for name in ("env", "ffi", "import", "net", "run", "sys", "write")} < set(command)
    assert {"--no-prompt", "--cached-only", "--no-remote", "--no-config"} < set(command)
