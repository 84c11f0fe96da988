"""Downloads from a server of our own: kept, checked, resumed."""

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("pooch")

from nmar.data.datasets import download
from nmar.data.datasets.sources import SOURCES

CONTENT = bytes(range(256)) * 40


class Server(ThreadingHTTPServer):
    """Serves CONTENT; notes what was asked for, and may break off."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges, self.tag, self.stop_after, self.content = [], '"one"', None, CONTENT

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/data.bin"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        asked, tag = self.headers.get("Range"), self.headers.get("If-Range")
        self.server.ranges.append(asked)
        same = tag in (None, self.server.tag)  # a server sends the part unless it is told of another version
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and same else 0
        body = self.server.content[start:]
        if start and not body:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if self.server.tag:
            self.send_header("ETag", self.server.tag)
        self.end_headers()
        self.wfile.write(body[: self.server.stop_after])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    one = Server()
    thread = threading.Thread(target=one.serve_forever)
    thread.start()
    yield one
    one.shutdown()
    one.server_close()
    thread.join()


@pytest.fixture
def source(server):
    digest = hashlib.md5(CONTENT).hexdigest()
    return replace(SOURCES["jester-2"], url=server.url, known_hash=f"md5:{digest}")


def test_a_download_is_kept(source, server, tmp_path):
    for _ in range(2):
        assert download.fetch(source, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None], "the second comes from the cache"
    assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]


def test_a_wrong_checksum_keeps_nothing(source, tmp_path):
    with pytest.raises(ValueError, match=r"Jester 2: .*does not match the known hash.*nothing was kept"):
        download.fetch(replace(source, known_hash="md5:" + "0" * 32), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_checksum_of_ones_own_counts_instead(source, tmp_path):
    with pytest.raises(ValueError, match="does not match the known hash"):
        download.fetch(source, tmp_path, known_hash="sha256:" + "0" * 64)
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert download.fetch(source, tmp_path, known_hash=f"sha256:{digest}").read_bytes() == CONTENT


def test_without_a_known_checksum_the_found_one_is_said(source, tmp_path, caplog):
    with caplog.at_level("INFO", "nmar"):
        download.fetch(replace(source, known_hash=None), tmp_path)
    assert f"no checksum is published; this file is sha256:{hashlib.sha256(CONTENT).hexdigest()}" in caplog.text


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(download, "CHUNK", 100)


def broken(source, server, folder):
    server.stop_after = 1000
    with pytest.raises(OSError, match=r"broke after 1,000 of 10,240 bytes; try again") as told:
        download.fetch(source, folder)
    assert ("goes on from there" in str(told.value)) == bool(server.tag)
    server.stop_after = None
    assert (folder / "data.bin.part").stat().st_size == 1000


def test_a_broken_download_goes_on_where_it_stopped(source, server, tmp_path):
    broken(source, server, tmp_path)
    assert download.fetch(source, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1000-"]
    assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]


def test_a_broken_download_without_a_version_begins_anew(source, server, tmp_path):
    server.tag = ""
    broken(source, server, tmp_path)
    assert download.fetch(source, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, None]


def test_parts_of_two_versions_are_not_joined(source, server, tmp_path):
    broken(source, server, tmp_path)
    server.tag, server.content = '"two"', CONTENT[::-1]
    digest = hashlib.md5(server.content).hexdigest()
    assert download.fetch(source, tmp_path, f"md5:{digest}").read_bytes() == server.content


def test_a_part_that_is_whole_is_taken(source, server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    (tmp_path / "data.bin.part.mark").write_text(server.tag)
    assert download.fetch(source, tmp_path).read_bytes() == CONTENT


def test_without_pooch(source, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install pooch"):
        download.fetch(source, tmp_path)
