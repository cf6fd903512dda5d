"""Runs the services of compose.yaml as they are written there, over embedded servers and on this host.

What a container engine would do is done here: variables, secrets, names of hosts, ports, folders. Command lines and
health checks are taken as they stand.
"""

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial

import yaml
from sqlalchemy.engine import make_url

from pipeline.embedded.ports import PortPicker
from tests.system import QUICK, ROOT
from tests.waiting import eventually
from workers.process import die_with_parent

OURS = "muniment"
PORTS = ("9464", "8765", "5555")


def read_compose():
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def interpolated(value, variables):
    """Do what compose does to a string: `${NAME:-default}`, and `$$` for a dollar."""
    if isinstance(value, list):
        return [interpolated(item, variables) for item in value]
    if isinstance(value, dict):
        return {name: interpolated(item, variables) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    filled = re.sub(r"(?<!\$)\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], found[2]), value)
    return filled.replace("$$", "$")


class ComposedStack:
    """The services of ours, on this host."""

    def __init__(self, settings, folder, variables):
        self.services = interpolated(read_compose()["services"], variables)
        self._folder = folder
        self._picker = PortPicker(folder)
        self._ports = {}
        self._running = {}
        self._secrets = self._write_secrets(settings)
        self._named = self._names_of(settings)
        self._write_programs()

    def of_ours(self):
        """Return the names of the services that run our image."""
        return [name for name, service in self.services.items() if service["image"].partition(":")[0] == OURS]

    def port(self, service, container_port):
        """Return where a port of a service's container is on this host."""
        key = service, container_port
        if key not in self._ports:
            self._ports[key] = str(self._picker.pick())
        return self._ports[key]

    def run(self, service, command):
        """Run a command in a service's environment; return its exit code and what it printed."""
        ran = subprocess.run(
            self._here(service, command),
            env=self._environment(service),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return ran.returncode, ran.stdout + ran.stderr

    def start(self, service):
        """Start a service by its command."""
        log = (self._folder / f"{service}.log").open("ab")
        with log:
            self._running[service] = subprocess.Popen(
                self._here(service, self.services[service]["command"]),
                env=self._environment(service),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - tests fork from their main thread
            )

    def becomes_healthy(self, service):
        """Wait until the service's own health check passes."""
        kind, *command = self.services[service]["healthcheck"]["test"]
        assert kind == "CMD"
        eventually(lambda: self._check(service, command), within=120)

    def _check(self, service, command):
        assert self._running[service].poll() is None, self.log(service)
        return self.run(service, command)[0] == 0

    def stop(self, service):
        """Stop a service as an engine does; return its exit code."""
        process = self._running.pop(service)
        process.send_signal(signal.SIGTERM)
        return process.wait(int(self.services[service]["stop_grace_period"].removesuffix("s")))

    def kill(self):
        """End what is left."""
        for process in self._running.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def log(self, service):
        return (self._folder / f"{service}.log").read_text()

    def _environment(self, service):
        given = {name: str(value) for name, value in self.services[service]["environment"].items()}
        return {
            "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONPATH": str(ROOT),
            "PYTHONSAFEPATH": "1",
            "MUNIMENT_CONFIG": os.devnull,
            "MUNIMENT_HOME": str(self._folder / f"home-{service}"),
            "MUNIMENT_DEVICES__TEMPORARY_FOLDER": str(self._folder / f"tmp-{service}"),
            "MUNIMENT_DEVICES__DECLARED": '[{"name": "cuda:sim0", "total_bytes": 1000000000}]',
            "MUNIMENT_SIMULATED": '{"tokens": 60}',
            # In a container it is that container's own; here another API of this host may have it.
            "MUNIMENT_API__ADMIN_PORT": self.port(service, "8766"),
            **QUICK,
            **{name: self._mapped(service, value) for name, value in given.items()},
        }

    def _here(self, service, command):
        return [self._mapped(service, word) for word in command]

    def _mapped(self, service, text):
        for there, here in self._named.items():
            text = text.replace(there, here)
        return re.sub(rf"\b({'|'.join(PORTS)})\b", lambda found: self.port(service, found[0]), text)

    def _names_of(self, settings):
        database, broker = (make_url(part.url.get_secret_value()) for part in (settings.database, settings.broker))
        return {
            "postgres:5432/muniment": f"{database.host}:{database.port}/{database.database}",
            "valkey:6379/0": f"{broker.host}:{broker.port}/{broker.database}",
            "minio:9000": settings.objects.endpoint,
            "/run/secrets": str(self._secrets),
            "/locks": str(self._folder / "locks"),
            "0.0.0.0": "127.0.0.1",
        }

    def _write_secrets(self, settings):
        folder = self._folder / "secrets"
        folder.mkdir()
        values = {
            "database__password": make_url(settings.database.url.get_secret_value()).password,
            "broker__password": make_url(settings.broker.url.get_secret_value()).password,
            "objects__access_key": settings.objects.access_key,
            "objects__secret_key": settings.objects.secret_key.get_secret_value(),
            "flower_password": "secret",
        }
        for name, value in values.items():
            (folder / name).write_text(f"{value}\n")
        return folder

    def _write_programs(self):
        """Put what the image has on its path there: the interpreter and our command."""
        folder = self._folder / "bin"
        folder.mkdir()
        (folder / "python").symlink_to(sys.executable)
        muniment = folder / "muniment"
        muniment.write_text(f'#!/bin/sh\nexec {sys.executable} -m pipeline.cli "$@"\n')
        muniment.chmod(0o755)


def shipped_alerts():
    """Return every alert rule by its name."""
    rules = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text())
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}


def shipped_queries():
    """Return every PromQL expression of the board, with the title of its panel."""
    board = json.loads((ROOT / "deploy/grafana/boards/muniment.json").read_text())
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", ())]


def shipped_expressions():
    """Return those of the board and of the alert rules, with what each is for."""
    return shipped_queries() + [(name, rule["expr"]) for name, rule in shipped_alerts().items()]


def metric_names(expression):
    return set(re.findall(r"\b(?:muniment|process)_\w+", expression))
