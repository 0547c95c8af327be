"""The store in a bucket, against a real server on loopback that speaks S3's protocol."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from types import SimpleNamespace

import pytest

from workload import store_files
from workload.errors import UserError
from workload.run_config import S3StoreConfig
from workload.store import Store


@pytest.fixture
def config(endpoint, tmp_path, monkeypatch) -> S3StoreConfig:
    monkeypatch.setattr(store_files, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(store_files.tempfile, "tempdir", str(tmp_path))
    prefix = f"store/{tmp_path.name}"
    return S3StoreConfig(kind="s3", bucket="checkpoints", prefix=prefix, region="us-east-1", endpoint=endpoint)


@pytest.fixture
def store(config) -> Store:
    return Store(config)


@pytest.fixture
def downloads(monkeypatch) -> list[str]:
    names: list[str] = []
    copy_down = store_files.BucketFiles._copy_down

    def counted(self, info, file):
        names.append(info.path)
        copy_down(self, info, file)

    monkeypatch.setattr(store_files.BucketFiles, "_copy_down", counted)
    return names


def test_what_is_written_is_listed_read_and_deleted(store):
    store.check_writable()
    store.write("a/b.json", b"1")
    store.write("a/b.json", b"22")
    store.write("a/deep/c.json", b"")

    assert [(f.path, f.size) for f in store.files("a")] == [("a/b.json", 2)]
    assert store.folders("a") == ["deep"]
    assert store.files("nothing") == store.folders("nothing") == []
    assert store.read("a/b.json") == b"22"
    assert store.exists("a/b.json")
    assert not store.exists("a/x.json")
    store.delete_file("a/b.json")
    assert not store.exists("a/b.json")
    store.delete_folder("a")
    assert store.folders("a") == []
    with pytest.raises(FileNotFoundError):
        store.read("a/deep/c.json")


def test_an_upload_of_many_parts_is_verified(store, tmp_path, monkeypatch):
    source = tmp_path / "shard"
    source.write_bytes(os.urandom(2**20) * 12)

    assert store.upload(source, "shards/good") == store.sha256("shards/good")
    assert [(f.path, f.size) for f in store.files("shards")] == [("shards/good", 12 * 2**20)]
    monkeypatch.setattr(Store, "sha256", lambda *_: "other")
    with pytest.raises(OSError, match=r"s3://checkpoints/.*/shards/bad differs from what was written"):
        store.upload(source, "shards/bad")


def test_an_upload_whose_source_fails_half_way_leaves_nothing(store):
    parts = [b"x" * 6 * 2**20]

    def read(_size):
        if not parts:
            raise OSError("the disk is gone")
        return parts.pop()

    source = SimpleNamespace(open=lambda _mode: contextlib.nullcontext(SimpleNamespace(read=read)))
    with pytest.raises(OSError, match="the disk is gone"):
        store.upload(source, "shards/half")
    assert store.files("shards") == []


def test_a_folder_is_downloaded_once_and_again_only_after_a_change(store, downloads):
    store.write("data/a.bin", b"aa")
    store.write("data/sub/b.bin", b"b")

    first = store.fetched("data")
    assert store.fetched("data/") == first
    assert (first / "a.bin").read_bytes() == b"aa"
    assert (first / "sub/b.bin").read_bytes() == b"b"
    assert sorted(downloads) == ["data/a.bin", "data/sub/b.bin"]
    store.write("data/a.bin", b"changed")
    assert (store.fetched("data") / "a.bin").read_bytes() == b"changed"
    assert (first / "a.bin").read_bytes() == b"aa"


def test_one_file_is_fetched_under_its_own_name_and_released(store, downloads):
    store.write("data/tokens.bin", b"123")

    path = store.fetched("data/tokens.bin")
    assert (path.name, path.read_bytes()) == ("tokens.bin", b"123")
    assert store.fetched("data/tokens.bin") == path
    assert downloads == ["data/tokens.bin"]
    store.release("data/tokens.bin")
    assert not path.exists()
    assert store.fetched("data/tokens.bin").read_bytes() == b"123"


def test_a_download_that_dies_half_way_is_never_taken_for_the_whole(store, monkeypatch):
    store.write("data/a", b"1")
    store.write("data/b", b"22")
    copy_down = store_files.BucketFiles._copy_down

    def dying(self, info, file):
        if info.path == "data/b":
            raise PermissionError("no")
        copy_down(self, info, file)

    with monkeypatch.context() as patch, pytest.raises(PermissionError):
        patch.setattr(store_files.BucketFiles, "_copy_down", dying)
        store.fetched("data")

    assert sorted(p.name for p in store.fetched("data").iterdir()) == ["a", "b"]


def test_what_is_not_there_cannot_be_fetched(store):
    with pytest.raises(FileNotFoundError, match=r"s3://checkpoints/.*/nothing does not exist"):
        store.fetched("nothing")


def _fetch(config: S3StoreConfig, folder: str, barrier, results) -> None:
    store_files.tempfile.tempdir = folder
    store = Store(config)
    barrier.wait()
    found = store.fetched("data")
    results.put((str(found), (found / "a").stat().st_mtime_ns))


@pytest.mark.case("C088")
def test_processes_of_one_machine_share_one_download(store, config, tmp_path):
    store.write("data/a", b"1" * 1000)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [context.Process(target=_fetch, args=(config, str(tmp_path), barrier, results)) for _ in range(2)]
    for process in processes:
        process.start()
    found = {results.get(timeout=60) for _ in processes}
    for process in processes:
        process.join(60)

    assert len(found) == 1


def test_a_work_folder_uploads_what_was_made_in_it_the_last_file_last(store, monkeypatch):
    uploaded: list[str] = []
    upload = Store.upload
    monkeypatch.setattr(Store, "upload", lambda self, source, path: (uploaded.append(path), upload(self, source, path))[1])

    with store.work_folder("data/1", last="manifest") as folder:
        for name in ("a", "manifest", "z"):
            (folder / name).write_bytes(b"first")
    assert uploaded == ["data/1/a", "data/1/z", "data/1/manifest"]

    with store.work_folder("data/1", last="manifest") as folder:
        assert sorted(p.name for p in folder.iterdir()) == ["a", "manifest", "z"]
    assert len(uploaded) == 3
    assert not folder.exists()

    with pytest.raises(RuntimeError), store.work_folder("data/1", last="manifest") as folder:
        (folder / "a").write_bytes(b"half")
        raise RuntimeError
    assert store.read("data/1/a") == b"first"


def test_a_folder_without_its_last_file_is_nothing_to_start_from(store):
    store.write("data/2/a", b"left by a killed upload")

    with store.work_folder("data/2", last="manifest") as folder:
        assert list(folder.iterdir()) == []


def test_a_bucket_that_is_not_there_is_refused_in_words(config):
    gone = config.model_copy(update={"bucket": "nobody-made-it"})

    with pytest.raises(UserError, match=r"store = s3://nobody-made-it/.*: cannot be written \(.*\)\. Fix: check bucket"):
        Store(gone).check_writable()
