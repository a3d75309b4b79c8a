"""ansible-core and pyinfra doing the same job as a deployment: write one site file, test, reload, verify over HTTP."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from tests.suites.perf.fleet import FleetHost, site_text

HERE = Path(__file__).parent
VENV = Path(sys.prefix).parent / ".venv-perf"


def install() -> Path:
    """The bin folder of a venv that holds the peers, made on first use."""
    pins = HERE / "peers.txt"
    stamp = VENV / hashlib.sha256(pins.read_bytes()).hexdigest()[:16]
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        argv = [str(VENV / "bin" / "pip"), "install", "-q", "--require-hashes", "--no-deps", "-r", str(pins)]
        subprocess.run(argv, check=True)
        stamp.touch()
    return VENV / "bin"


class Ansible:
    """A playbook with copy, command, and uri; forks as many as its documentation advises for small controllers."""

    name = "ansible-core"

    def __init__(self, folder: Path, hosts: list[FleetHost], mark: str, waves: Sequence[int] = ()) -> None:
        """`waves`: numbers of hosts, in order; a host that fails ends the play."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        serial = f"  serial: {list(waves)}\n  max_fail_percentage: 0\n" if waves else ""
        inventory = {
            host.name: {
                "ansible_host": "127.0.0.1",
                "ansible_port": host.sshd.port,
                "ansible_user": host.sshd.username,
                "ansible_ssh_private_key_file": str(host.sshd.root / "client_key"),
                "ansible_python_interpreter": "/usr/bin/python3",
                "nginx_root": str(host.nginx.root),
                "site_text": site_text(host, mark),
                "http_port": host.http_port,
            }
            for host in hosts
        }
        (folder / "inventory.json").write_text(json.dumps({"all": {"hosts": inventory}}))
        (folder / "play.yml").write_text(
            textwrap.dedent(
                f"""\
                - hosts: all
                  gather_facts: false
                @SERIAL@
                  tasks:
                    - ansible.builtin.copy:
                        content: "{{{{ site_text }}}}"
                        dest: "{{{{ nginx_root }}}}/conf.d/site.conf"
                    - ansible.builtin.command:
                        argv: [nginx, -t, -p, "{{{{ nginx_root }}}}", -c, "{{{{ nginx_root }}}}/nginx.conf"]
                    - ansible.builtin.command:
                        argv: [nginx, -s, reload, -p, "{{{{ nginx_root }}}}", -c, "{{{{ nginx_root }}}}/nginx.conf"]
                    - ansible.builtin.uri:
                        url: "http://127.0.0.1:{{{{ http_port }}}}/version"
                        headers: {{Host: site.example}}
                        return_content: true
                      register: answer
                      until: answer.content is defined and answer.content == "{mark}"
                      retries: 40
                      delay: 0.05
                """
            ).replace("@SERIAL@\n", serial)
        )

    def argv(self, binaries: Path) -> list[str]:
        play = str(self.folder / "play.yml")
        return [str(binaries / "ansible-playbook"), "-i", str(self.folder / "inventory.json"), "-f", "20", play]

    def env(self, binaries: Path) -> dict[str, str]:
        return {
            "ANSIBLE_HOST_KEY_CHECKING": "False",
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            "PATH": f"{binaries}:/usr/sbin:/usr/bin:/sbin:/bin",
        }


class Pyinfra:
    """The same as operations of a pyinfra deploy file. With `waves` it is called once for each: it has none itself."""

    name = "pyinfra"

    def __init__(self, folder: Path, hosts: list[FleetHost], mark: str, waves: Sequence[int] = ()) -> None:
        self.folder, self.waves = folder, waves
        folder.mkdir(parents=True, exist_ok=True)
        entries = []
        for host in hosts:
            source = folder / f"{host.name}.conf"
            source.write_text(site_text(host, mark))
            data = {
                "ssh_hostname": "127.0.0.1",
                "ssh_port": host.sshd.port,
                "ssh_user": host.sshd.username,
                "ssh_key": str(host.sshd.root / "client_key"),
                "ssh_strict_host_key_checking": "no",
                "ssh_known_hosts_file": "/dev/null",
                "source": str(source),
                "nginx_root": str(host.nginx.root),
                "http_port": host.http_port,
            }
            entries.append((host.name, data))
        ends = list(accumulate(waves))
        groups = {f"wave{end}": entries[end - size : end] for size, end in zip(waves, ends, strict=True)}
        lines = (f"{name} = {part!r}\n" for name, part in (groups or {"hosts": entries}).items())
        (folder / "inventory.py").write_text("".join(lines))
        (folder / "deploy.py").write_text(
            textwrap.dedent(
                f"""\
                from pyinfra import host
                from pyinfra.operations import files, server

                root, port = host.data.nginx_root, host.data.http_port
                files.put(src=host.data.source, dest=f"{{root}}/conf.d/site.conf")
                server.shell(commands=[
                    f"nginx -t -p {{root}} -c {{root}}/nginx.conf",
                    f"nginx -s reload -p {{root}} -c {{root}}/nginx.conf",
                    "for i in $(seq 40); do "
                    f"test $(curl -s -H Host:site.example http://127.0.0.1:{{port}}/version) = {mark} && exit 0; "
                    "sleep 0.05; done; exit 1",
                ])
                """
            )
        )

    def argv(self, binaries: Path) -> list[str]:
        argv = [str(binaries / "pyinfra"), "-y", str(self.folder / "inventory.py"), str(self.folder / "deploy.py")]
        if not self.waves:
            return argv
        calls = (shlex.join([*argv, "--limit", f"wave{end}", "--fail-percent", "0"]) for end in accumulate(self.waves))
        return ["sh", "-ec", "\n".join(calls)]

    def env(self, binaries: Path) -> dict[str, str]:
        return {"PATH": f"{binaries}:/usr/sbin:/usr/bin:/sbin:/bin"}
