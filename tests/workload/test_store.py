"""Every write is whole or absent, blips are survived, damage is noticed."""

import pytest

from workload import store_files
from workload.errors import UserError
from workload.run_config import StoreConfig
from workload.store import Store
from workload.store_files import MountedFiles


@pytest.fixture
def store(tmp_path, monkeypatch) -> Store:
    monkeypatch.setattr(store_files, "RETRY_SECONDS", 0.0)
    (tmp_path / "store").mkdir()
    return Store(StoreConfig(path=str(tmp_path / "store")))


def test_what_is_written_is_listed_read_and_deleted(store):
    store.write("a/b.json", b"1")
    store.write("a/c.json", b"22")

    assert [(f.path, f.size) for f in store.files("a")] == [("a/b.json", 1), ("a/c.json", 2)]
    assert store.read("a/c.json") == b"22"
    store.delete_folder("a")
    assert store.files("a") == []
    assert not store.exists("a/b.json")


@pytest.mark.case("C131")
def test_a_write_that_dies_half_way_leaves_the_old_file_and_is_never_listed(store, monkeypatch):
    store.write("a/b.json", b"old")
    monkeypatch.setattr(MountedFiles, "_publish", lambda *_: (_ for _ in ()).throw(OSError("power cut")))

    with pytest.raises(OSError, match="power cut"):
        store.write("a/b.json", b"new")

    assert store.read("a/b.json") == b"old"
    assert [f.path for f in store.files("a")] == ["a/b.json"]


@pytest.mark.case("C137")
def test_one_flaky_answer_does_not_fail_a_write_but_three_do(store, monkeypatch):
    publish, failures = MountedFiles._publish, iter([OSError("blip")])

    def flaky(self, temporary, path):
        if error := next(failures, None):
            raise error
        publish(self, temporary, path)

    monkeypatch.setattr(MountedFiles, "_publish", flaky)
    store.write("a", b"1")
    assert store.read("a") == b"1"
    failures = iter([OSError("1"), OSError("2"), OSError("3")])
    with pytest.raises(OSError, match="3"):
        store.write("a", b"2")


def test_an_upload_that_arrives_changed_is_refused(store, tmp_path, monkeypatch):
    source = tmp_path / "shard"
    source.write_bytes(b"x" * 100)
    assert store.upload(source, "good") == store.sha256("good")
    monkeypatch.setattr(Store, "sha256", lambda *_: "other")

    with pytest.raises(OSError, match=r"bad differs from what was written \(100 bytes\)"):
        store.upload(source, "bad")


def test_a_store_that_cannot_be_written_is_refused_by_key_and_path(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UserError, match=r"store\.path = .*/file: cannot be written \(.*\)\. Fix: name a folder"):
        Store(StoreConfig(path=str(tmp_path / "file"))).check_writable()


def test_a_store_folder_is_made_when_it_is_not_there(tmp_path):
    Store(StoreConfig(path=str(tmp_path / "new" / "folder"))).check_writable()

    assert (tmp_path / "new" / "folder").is_dir()


def test_a_mounted_file_is_read_and_mended_in_place(store, tmp_path):
    store.write("data/a", b"1")

    assert store.fetched("data/a") == tmp_path / "store/data/a"
    with store.work_folder("data", last="a") as folder:
        assert folder == tmp_path / "store/data"
    store.release("data")
    assert store.read("data/a") == b"1"
