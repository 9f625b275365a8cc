import multiprocessing
import os
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from embedq.embedders import local_weights
from embedq.embedders.local import MAX_TOKENS, MODEL_DIR
from embedq.embedders.local_cache import GRAPH_SHA256, graph
from embedq.embedders.local_folder import cache_folder
from embedq.embedders.local_graph import build
from embedq.embedders.local_model import LocalModel
from embedq.embedders.local_tokens import TextTokenizer, surely_whole
from embedq.embedders.local_weights import TOKENIZER, WEIGHTS, Source, locate
from embedq.errors import Critical, SettingsError


@pytest.fixture(scope="module")
def source() -> Source:
    return locate(os.environ)


@pytest.fixture(scope="module")
def tokenizer(source: Source) -> TextTokenizer:
    return TextTokenizer(source.verified(TOKENIZER))


@pytest.fixture
def copy(source: Source, tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in (WEIGHTS, TOKENIZER):
        shutil.copy(source.folder / name, folder / name)
    return folder


def test_a_named_folder_wins(copy: Path) -> None:
    """`EMBEDQ_MODEL_DIR` comes before the cache."""
    assert locate({MODEL_DIR: str(copy)}).folder == copy


def test_a_named_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    """The refusal names the variable and what is missing."""
    with pytest.raises(SettingsError, match=rf"{MODEL_DIR}=.*{WEIGHTS} and {TOKENIZER}"):
        locate({MODEL_DIR: str(tmp_path)})


@pytest.mark.parametrize("name", [WEIGHTS, TOKENIZER])
def test_a_changed_file_is_refused(copy: Path, name: str) -> None:
    """One changed byte and the file is not used."""
    with (copy / name).open("r+b") as file:
        file.seek(1000)
        file.write(b"\x00\x01\x02")

    with pytest.raises(Critical, match="SHA-256"):
        Source(copy).verified(name)


def test_the_weights_package_of_earlier_versions_is_found(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who installed it as their page said needs no network after an upgrade."""
    monkeypatch.setattr(local_weights, "PACKAGE", "weights_of_before")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "weights_of_before").mkdir()
    (tmp_path / "weights_of_before" / "__init__.py").touch()
    packaged = copy.rename(tmp_path / "weights_of_before" / "model")

    assert locate({"XDG_CACHE_HOME": str(tmp_path)}).folder == packaged


def test_without_files_the_refusal_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the cache, no folder named, and no package."""
    monkeypatch.setattr(local_weights, "PACKAGE", "no_such_package")
    with pytest.raises(SettingsError, match=f"run `embedq model install`, or name a folder .* in {MODEL_DIR}"):
        locate({"XDG_CACHE_HOME": str(tmp_path)})


def test_the_graph_is_built_once_and_checked(source: Source, tmp_path: Path) -> None:
    """The second time the file is reused as it is; a file that was cut is built again, to the same bytes."""
    built = graph(source, tmp_path)
    assert isinstance(built, Path)
    stamp = built.stat().st_mtime_ns
    assert graph(source, tmp_path) == built
    assert built.stat().st_mtime_ns == stamp
    os.truncate(built, 1_000_000)

    again = graph(source, tmp_path)

    assert again == built
    assert built.stat().st_size > 80_000_000
    assert list(tmp_path.iterdir()) == [built]


def test_what_is_built_is_what_it_must_be(source: Source) -> None:
    """The weights make the very bytes that the code names: only these are ever loaded from a cache."""
    assert sha256(build(source.verified(WEIGHTS))).hexdigest() == GRAPH_SHA256


@pytest.mark.parametrize("link", [False, True])
def test_a_forged_graph_is_not_loaded(source: Source, tmp_path: Path, *, link: bool) -> None:
    """A file whose name agrees with its content is not enough, nor a link at the right place: it is built again."""
    right = graph(source, tmp_path)
    assert isinstance(right, Path)
    forged = right.read_bytes()[:-1] + b"!"
    right.unlink()
    named = right.with_name(right.name.replace(GRAPH_SHA256, sha256(forged).hexdigest()))
    named.write_bytes(forged)
    if link:
        right.symlink_to(named)
    else:
        right.write_bytes(forged)

    again = graph(source, tmp_path)

    assert again == right
    assert not right.is_symlink()
    assert sha256(right.read_bytes()).hexdigest() == GRAPH_SHA256
    assert named.read_bytes() == forged


def test_a_cache_is_its_users_alone(source: Source, tmp_path: Path) -> None:
    """With the loosest umask folder and file are private, and a folder that others could write is closed to them."""
    before = os.umask(0)
    try:
        kept = graph(source, tmp_path / "made")
        (tmp_path / "open").mkdir(mode=0o777)
        closed = graph(source, tmp_path / "open")
    finally:
        os.umask(before)

    for path in (kept, closed):
        assert isinstance(path, Path)
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_cache_of_another_user_is_not_used(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's folder may change under us: the graph is built and used from memory."""
    if os.geteuid() == 0:
        os.chown(tmp_path, 12_345, 12_345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)

    assert isinstance(graph(source, tmp_path), bytes)
    assert list(tmp_path.iterdir()) == []


def test_without_a_cache_the_model_works_from_memory(source: Source, tmp_path: Path) -> None:
    """Where nothing can be kept, the graph is used all the same."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    model = LocalModel(source, {"XDG_CACHE_HOME": str(blocked)})

    [tokens] = model.tokens(["A loom weaves threads into cloth."])

    assert isinstance(graph(source, blocked), bytes)
    assert np.linalg.norm(model.vectors([tokens.ids])) == pytest.approx(1.0, abs=1e-6)


def _build(folder: str) -> str:
    return str(graph(locate(os.environ), Path(folder)))


def test_processes_that_build_at_once_do_no_harm(tmp_path: Path) -> None:
    """Two processes that find no graph both end with the same whole file, and leave no drafts."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        paths = pool.map(_build, [str(tmp_path)] * 2)

    assert len(set(paths)) == 1
    assert [str(path) for path in tmp_path.iterdir()] == paths[:1]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_CACHE_HOME": "/var/cache/me", "HOME": "/home/me"}, "/var/cache/me/embedq"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/embedq"),
        ({"HOME": "/home/me"}, "/home/me/.cache/embedq"),
    ],
)
def test_the_cache_lies_where_the_user_keeps_caches(environment: dict[str, str], expected: str) -> None:
    """An absolute XDG_CACHE_HOME wins, else it is ~/.cache."""
    assert cache_folder(environment) == Path(expected)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 30_000,
        "漢" * 20_000,
        "漢字、" * 20_000,
        "x" * 100_000 + " and words " * 300,
        " " * 50_000 + "a late word",
        "word " * 250 + " " * 20_000 + "word " * 250,
        "한국어 문장 " * 4000,
    ],
)
def test_a_long_text_is_cut_where_the_whole_would_be(tokenizer: TextTokenizer, text: str) -> None:
    """Reading only the beginning of a text gives the same tokens, and the same answer on cutting, as reading it all."""
    whole = tokenizer._tokenizer.encode(text).ids

    [tokens] = tokenizer.tokens([text])

    assert tokens.cut == (len(whole) > MAX_TOKENS)
    assert tokens.ids == (whole if not tokens.cut else [*whole[: MAX_TOKENS - 1], whole[-1]])


@pytest.mark.parametrize("character", ["a", ".", "é", "漢", "각", "🚲", "ﷺ", "ৌ"])
def test_what_is_surely_whole_is_never_cut(tokenizer: TextTokenizer, character: str) -> None:
    """The longest text that counts as surely whole fits into the model, whatever it is made of."""
    length = max(size for size in range(300) if surely_whole(character * size))
    spaced = " ".join(character * (length // 2))

    assert not any(tokens.cut for tokens in tokenizer.tokens([character * length, spaced]))
