"""From an empty database to a site that is created, deployed, broken, rolled back and benchmarked, in a browser.

Each step is a test, so that a failure names it. A step continues where the step before ended.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.suites.browser.conftest import Eyes, Panel
from tests.support.apache import ApacheInstance
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.sshd import SshServer
from tests.support.waiting import eventually

PASSWORD = "rusty gate opens slowly 7"


class Machine:
    """What the admin's host is: sshd, nginx and Apache with a site's pages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sshd = SshServer(root / "sshd")
        self.sshd.environment["PADDOCK_GALLOP_BASE"] = str(root / "gallop")
        self.nginx = NginxInstance(root / "nginx-web")
        self.apache = ApacheInstance(root / "apache-web")
        self.www = root / "www"
        self.ports = {name: free_port() for name in ("nginx", "apache", "gallop", "other", "base")}
        (self.www / "shop" / "assets").mkdir(parents=True)
        (self.www / "shop" / "index.html").write_text("<h1>The shop</h1>\n")
        (self.www / "shop" / "assets" / "app.css").write_text("h1 { color: teal }\n")
        # What was there before the panel: another site, which must go on answering whatever happens.
        (self.nginx.root / "conf.d" / "other.conf").write_text(
            f"server {{ listen 127.0.0.1:{self.ports['other']}; location / {{ return 200 other; }} }}\n"
        )
        (self.apache.root / "conf.d" / "base.conf").write_text(f"Listen 127.0.0.1:{self.ports['base']}\n")

    def start(self) -> None:
        self.sshd.start()
        self.nginx.start()
        self.apache.start()

    def stop(self) -> None:
        gallop = self.root / "gallop"
        argv = [
            str(gallop / "bin" / "gallop"),
            "-p",
            str(gallop),
            "-c",
            str(gallop / "conf" / "gallop.conf"),
            "-s",
            "stop",
        ]
        if (gallop / "run" / "gallop.pid").exists():
            subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, timeout=20)
        self.apache.stop()
        self.nginx.stop()
        self.sshd.stop()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    root = Path(tempfile.mkdtemp(prefix="pdh-"))
    root.chmod(0o755)
    machine = Machine(root)
    machine.start()
    yield machine
    machine.stop()
    shutil.rmtree(root, ignore_errors=True)


def test_step_1_setup_link_creates_first_account(panel: Panel, eyes: Eyes) -> None:
    page = eyes.page
    eyes.visit(panel.setup_url)
    eyes.shot("setup")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Repeat password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    eyes.shot("self-check")
    eyes.visit(panel.url)
    eyes.shot("dashboard-empty")


def test_step_2_host_is_trusted_by_fingerprint(panel: Panel, eyes: Eyes, machine: Machine) -> None:
    page = eyes.page
    eyes.visit(f"{panel.url}/hosts/")
    eyes.shot("hosts")
    page.get_by_role("link", name="Add a host").first.click()
    page.locator("main").get_by_label("Name", exact=True).fill("web1")
    page.locator("main").get_by_label("Address", exact=True).fill("127.0.0.1")
    page.locator("main").get_by_label("Port", exact=True).fill(str(machine.sshd.port))
    page.locator("main").get_by_label("User name", exact=True).fill(machine.sshd.username)
    page.locator("main").get_by_label("Private key").fill(machine.sshd.private_key)
    page.locator("main").get_by_label("Site folders").fill(str(machine.www))
    eyes.shot("host-form")
    page.locator("main form button.primary").click()
    trust = page.get_by_role("button", name="The fingerprints match: trust this key")
    expect(trust).to_be_visible()
    eyes.shot("host-trust")
    trust.click()
    for server in (machine.nginx, machine.apache):  # private ones: shown, and managed once somebody says so
        page.locator("#others tr", has_text=str(server.main_config)).get_by_role("button", name="Manage").click()
        expect(page.get_by_text(server.root.name, exact=True)).to_be_visible()
    page.get_by_role("button", name="Install gallop").click()
    expect(page.locator("tr", has_text="gallop").get_by_text("Running").first).to_be_visible()
    eyes.shot("host")


def test_step_3_site_with_three_locations_is_drafted(panel: Panel, eyes: Eyes, machine: Machine) -> None:
    page = eyes.page
    eyes.visit(f"{panel.url}/sites/")
    eyes.shot("sites-empty")
    eyes.visit(f"{panel.url}/sites/+new/")
    control(page, "name").fill("shop")
    control(page, "domains").fill("shop.example\nwww.shop.example")
    control(page, "web_server").select_option(label="nginx (nginx-web) on web1")
    control(page, "root").fill(str(machine.www / "shop"))
    control(page, "port").fill(str(machine.ports["nginx"]))
    eyes.shot("site-wizard")
    page.get_by_role("button", name="Create the draft").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop")
    eyes.shot("site-overview")
    add_location(eyes, panel, match="^~", pattern="/assets/", handler="static", fields={"expires": "7d"})
    moved = {"return_code": "301", "return_value": "/assets/app.css"}
    add_location(eyes, panel, match="=", pattern="/old.css", handler="return", fields=moved)
    add_location(eyes, panel, match="", pattern="/private/", handler="deny", fields={})
    eyes.visit(f"{panel.url}/sites/shop/blocks/")
    expect(page.locator("table.locations tbody tr")).to_have_count(4)
    eyes.shot("site-blocks")


def test_step_4_invalid_value_is_rejected_at_its_field(panel: Panel, eyes: Eyes) -> None:
    page = eyes.page
    eyes.visit(f"{panel.url}/sites/shop/blocks/")
    page.get_by_role("link", name="Add a location").click()
    control(page, "pattern").fill("no-slash; }")
    control(page, "pattern").blur()
    expect(page.locator("#id_pattern-error")).to_contain_text("/")
    eyes.shot("location-invalid")
    page.locator("form button.primary").click()
    expect(control(page, "pattern")).to_have_attribute("aria-invalid", "true")
    eyes.visit(f"{panel.url}/sites/shop/blocks/")
    expect(page.locator("table.locations tbody tr")).to_have_count(4)


def test_step_5_plan_shows_files_and_deployed_site_responds(panel: Panel, eyes: Eyes, machine: Machine) -> None:
    plan(eyes, panel, "shop")
    expect(eyes.page.get_by_role("cell", name="server_name shop.example www.shop.example;")).to_be_visible()
    eyes.shot("plan")
    assert not (machine.nginx.root / "sites-available" / "shop.conf").exists()
    deploy(eyes)
    eyes.shot("deployed")
    port = machine.ports["nginx"]
    assert ask(port, host="shop.example").text == "<h1>The shop</h1>\n"
    assert ask(port, "/assets/app.css", host="shop.example").headers["cache-control"] == "max-age=604800"
    assert ask(port, "/old.css", host="shop.example").status == 301
    assert ask(port, "/private/x", host="shop.example").status == 403
    assert ask(machine.ports["other"]).text == "other"


def test_step_6_matching_location_is_explained(panel: Panel, eyes: Eyes, machine: Machine) -> None:
    page = eyes.page
    eyes.visit(f"{panel.url}/sites/shop/explain/")
    control(page, "url").fill(f"http://shop.example:{machine.ports['nginx']}/assets/app.css?v=1")
    page.get_by_role("button", name="Find the location").click()
    expect(page.locator(".explain-location")).to_contain_text("/assets/")
    expect(page.locator(".explain-server")).to_contain_text("shop.example")
    page.wait_for_url("**/explain/?url=*")
    in_every_look(eyes, "explain")


def test_step_7_rejected_change_is_rolled_back(panel: Panel, eyes: Eyes, machine: Machine) -> None:
    page = eyes.page
    eyes.visit(f"{panel.url}/sites/shop/blocks/")
    page.get_by_role("link", name="Add raw directives").click()
    confirm_password(eyes)
    # The panel's own check accepts any word here, and nginx accepts only "all" and "any".
    control(page, "text").fill("satisfy sometimes;")
    page.locator("main form button.primary").click()
    page.wait_for_url("**/blocks/**")
    plan(eyes, panel, "shop")
    page.get_by_role("button", name="Deploy").click()
    expect(page.locator(".live-state")).to_contain_text("rolled the host back to the previous configuration")
    expect(page.get_by_text("invalid value").first).to_be_visible()
    eyes.shot("rolled-back")
    assert ask(machine.ports["nginx"], host="shop.example").text == "<h1>The shop</h1>\n"
    assert ask(machine.ports["other"]).text == "other"
    eyes.visit(f"{panel.url}/")
    eyes.shot("dashboard-failure")
    eyes.visit(f"{panel.url}/sites/shop/blocks/")
    page.get_by_role("link", name="Delete raw directives for nginx of shop").click()
    with page.expect_navigation():
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("satisfy sometimes;")).to_have_count(0)


def test_step_8_same_site_runs_on_apache_and_gallop(panel: Panel, eyes: Eyes, machine: Machine) -> None:
    page = eyes.page
    for name, server, port in (
        ("shop-apache", "Apache httpd (apache-web) on web1", machine.ports["apache"]),
        ("shop-gallop", "gallop on web1", machine.ports["gallop"]),
    ):
        eyes.visit(f"{panel.url}/sites/shop/clone/")
        control(page, "name").fill(name)
        control(page, "domains").fill(f"{name}.example")
        page.get_by_role("button", name="Clone the site").click()
        eyes.visit(f"{panel.url}/sites/{name}/blocks/")
        page.get_by_role("link", name="Edit", exact=False).first.click()
        control(page, "listens").fill(str(port))
        page.locator("main form button.primary").click()
        eyes.visit(f"{panel.url}/sites/{name}/server/")
        control(page, "web_server").select_option(label=server)
        page.locator("main form button.primary").click()
        plan(eyes, panel, name)
        eyes.shot(f"plan-{name}")
        deploy(eyes)
        assert eventually(lambda port=port, name=name: ask(port, host=f"{name}.example").text == "<h1>The shop</h1>\n")
        assert ask(port, "/private/x", host=f"{name}.example").status == 403


def test_step_9_benchmark_compares_three_web_servers(panel: Panel, eyes: Eyes, machine: Machine) -> None:
    page = eyes.page
    eyes.visit(f"{panel.url}/benchmarks/")
    eyes.shot("benchmarks-empty")
    eyes.visit(f"{panel.url}/benchmarks/scenarios/new/ab")
    control(page, "name").fill("Front page")
    control(page, "argument_requests").fill("2000")
    control(page, "argument_concurrency").fill("8")
    eyes.shot("scenario-form")
    page.locator("main form button.primary").click()
    eyes.visit(f"{panel.url}/benchmarks/new")
    control(page, "scenario").select_option(label="Front page")
    for name in ("shop", "shop-apache", "shop-gallop"):
        page.locator(f"input[name=sites][value={name}]").check()
    page.get_by_role("button", name="Start").click()
    eyes.shot("run-live")
    expect(page.locator("main figure svg").first).to_be_visible(timeout=180_000)
    for name in ("shop", "shop-apache", "shop-gallop"):
        expect(page.locator("main table", has_text=name).first).to_be_visible()
    eyes.shot("run-result")


def test_step_10_existing_configuration_is_imported(panel: Panel, eyes: Eyes, machine: Machine) -> None:
    """In light and dark, wide and narrow; the screenshots are in tests/artifacts."""
    page = eyes.page
    eyes.visit(f"{panel.url}/hosts/web1/")
    page.get_by_role("link", name="Import existing sites").click()
    page.locator("#read select").select_option(label="nginx (nginx-web) on web1")
    in_every_look(eyes, "import")
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.locator("#sites tbody tr")).to_have_count(1)  # the panel's own sites are not found again
    page.get_by_label("Select other").check()
    in_every_look(eyes, "import-found")
    where = page.url
    page.locator("#sites a.name").click()
    expect(page.locator("#items tbody tr").first).to_be_visible()
    in_every_look(eyes, "import-site")
    eyes.visit(where)
    page.get_by_label("Select other").check()
    page.get_by_role("button", name="Adopt selected sites").click()
    expect(page.get_by_text("1 site was adopted as a draft.")).to_be_visible()
    assert (machine.nginx.root / "conf.d" / "other.conf").exists()
    page.get_by_role("button", name="Plan the first deployment").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Plan")
    in_every_look(eyes, "import-plan")
    deploy(eyes)
    expect(page.locator("#comparison")).to_contain_text("before the takeover are unchanged")
    page.locator("#comparison summary").click()
    in_every_look(eyes, "import-compared")
    assert ask(machine.ports["other"]).text == "other"


def test_step_11_no_page_had_console_errors(eyes: Eyes) -> None:
    """No script error, no missing asset and no violation of the content security policy."""
    assert eyes.complaints == []


def in_every_look(eyes: Eyes, name: str) -> None:
    for scheme in ("light", "dark"):
        eyes.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for width in (1280, 360):
            eyes.page.set_viewport_size({"width": width, "height": 860})
            room = eyes.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert room <= 0, f"{name} is wider than {width} px by {room}"
            eyes.shot(f"{name}-{scheme}-{width}")
    eyes.page.emulate_media(color_scheme="light")
    eyes.page.set_viewport_size({"width": 1280, "height": 860})


def control(page: Page, name: str) -> Locator:
    """The form control of that name."""
    return page.locator(f"main [name={name}]:visible").first


def add_location(eyes: Eyes, panel: Panel, *, match: str, pattern: str, handler: str, fields: dict[str, str]) -> None:
    page = eyes.page
    eyes.visit(f"{panel.url}/sites/shop/blocks/")
    page.get_by_role("link", name="Add a location").click()
    control(page, "match").select_option(match)
    control(page, "pattern").fill(pattern)
    control(page, "handler").select_option(handler)
    for name, value in fields.items():
        control(page, name).fill(value)
    page.locator("main form button.primary").click()
    page.wait_for_url("**/blocks/**")


def plan(eyes: Eyes, panel: Panel, site: str) -> None:
    eyes.visit(f"{panel.url}/sites/{site}/")
    eyes.page.get_by_role("button", name="Plan deployment").click()
    expect(eyes.page.get_by_role("heading", level=1)).to_contain_text("Plan")


def deploy(eyes: Eyes) -> None:
    eyes.page.get_by_role("button", name="Deploy").click()
    expect(eyes.page.locator(".live-state")).to_contain_text("Verified")
    eyes.visit(eyes.page.url)  # as it reloads itself now: what is looked at next must not go while it is


def confirm_password(eyes: Eyes) -> None:
    """Dangerous pages ask for the password again."""
    if "/confirm/" in eyes.page.url:
        eyes.page.locator("main").get_by_label("Password").fill(PASSWORD)
        eyes.page.locator("main form button, form button.primary").first.click()
