"""The Django project of the how-to, on both databases: real commands, a real server."""

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.acceptance.frameworks.pages import write_files
from tests.acceptance.processes import COMMAND_SECONDS, Place, Process
from tests.acceptance.waiting import until

MANAGE = (sys.executable, "manage.py")
IMPORTS = "from django.db import transaction\nfrom shop.apps import Shop\nfrom shop.models import Article\n"
ON_POSTGRES = """
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": {dbname!r}, "USER": {user!r},
    "HOST": {host!r}, "PORT": {port!r}}}}}
EMBEDQ_URL = {url!r}
"""


@dataclass
class Project:
    """A checkout of the project."""

    place: Place

    def manage(self, *words: str) -> str:
        """Run `manage.py` to its end; answer with what it printed."""
        done = subprocess.run(
            [*MANAGE, *words],
            cwd=self.place.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout

    def shell(self, code: str) -> list[str]:
        """Type this into Django's shell; answer with the printed lines."""
        return self.manage("shell", "-v", "0", "-c", IMPORTS + code).splitlines()

    def serve(self) -> Process:
        """Start the development server, with its autoreload."""
        command = [*MANAGE, "runserver", "127.0.0.1:0"]
        process = Process(command, folder=self.place.folder, name="runserver", environment=self.environment)
        self.place.processes.append(process)
        return process

    @property
    def environment(self) -> dict[str, str]:
        """The settings of embedq that are the machine's."""
        unset = {"EMBEDQ_URL": None, "EMBEDQ_LOG_LEVEL": None, "EMBEDQ_FAKE_LOG": None, "PYTHONUNBUFFERED": "1"}
        return self.place.with_settings(unset)


@pytest.fixture(params=["sqlite", "postgres"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    write_files("use-it-in-django.md", tmp_path)
    (tmp_path / "shop" / "__init__.py").touch()
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        with (tmp_path / "shop" / "settings.py").open("a") as settings:
            settings.write(ON_POSTGRES.format(url=url, **conninfo_to_dict(url)))
    place = Place(tmp_path)
    made = Project(place)
    made.manage("migrate", "--run-syncdb")
    yield made
    place.close()


def test_a_row_and_its_vector_come_together(project: Project) -> None:
    """What `save` writes is embedded after the commit, and found; what `delete` takes away is not."""
    said = project.shell(
        """
loom = Article.objects.create(title="A loom", body="It weaves.")
print(Shop.eq.wait("articles", [str(loom.pk)], timeout=30)[str(loom.pk)])
print(len(Shop.eq.search("articles", "weaves").hits))
loom.delete()
print(len(Shop.eq.search("articles", "weaves").hits), Article.objects.count())
"""
    )

    assert said == ["embedded", "1", "0 0"]


def test_a_rollback_leaves_neither(project: Project) -> None:
    """A transaction that ends in an error has made no row, no record and no job; its savepoints are the same."""
    said = project.shell(
        """
kept = Article(title="kept", body="x")
with transaction.atomic():
    kept.save()
    try:
        with transaction.atomic():
            Article.objects.create(title="lost", body="x")
            raise RuntimeError
    except RuntimeError:
        pass
    print(Shop.eq.records("articles").items)
try:
    with transaction.atomic():
        Article.objects.create(title="lost", body="x")
        kept.delete()
        raise RuntimeError
except RuntimeError:
    pass
print([record.text for record in Shop.eq.records("articles").items])
print([article.title for article in Article.objects.all()])
"""
    )

    assert said == ["[]", "['kept\\nx']", "['kept']"]


def test_threads_of_the_server_share_the_client(project: Project) -> None:
    """The development server, whose autoreload is a second process, answers many requests at once, and ends."""
    project.shell('Article.objects.create(title="A loom", body="It weaves.")')
    server = project.serve()

    def address() -> str | None:
        found = re.search(r"http://127\.0\.0\.1:\d+", server.output)
        return found.group() if found else None

    url = until(address, "the address that it serves")
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: httpx.get(f"{url}/search?q=loom", timeout=30).json(), range(24)))

    assert {tuple(answer["hits"]) for answer in answers} == {("1",)}
    server.leave()
    assert "Traceback" not in server.errors
