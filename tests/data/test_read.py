"""Files in and out."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse as sparse

from nmar.data import Cells, read, write_frame

COLUMNS = {
    "user": ["ann", "bob", "ann", "cat"],
    "item": [20, 10, 10, 30],
    "stars": [5.0, 0.0, 0.1 + 0.2, 1.0],
}
NAMES = {"row": "user", "col": "item", "value": "stars"}
TEXT = "user,item,stars\nann,20,5\nbob,10,0\nann,10,0.25\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def check(cells):
    assert cells.row_ids.tolist() == ["ann", "bob", "cat"]
    assert cells.col_ids.tolist() == [10, 20, 30]
    assert cells.values.tolist() == [0.1 + 0.2, 5.0, 0.0, 1.0]


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "csv.gz", "tsv.gz"])
def test_text_round_trip(tmp_path, ending):
    path = tmp_path / f"ratings.{ending}"
    write_frame(path, COLUMNS)
    check(read(path, **NAMES))
    check(read(str(path)))  # the first three columns


def test_parquet_round_trip(tmp_path):
    path = tmp_path / "ratings.v2.parquet"
    write_frame(path, COLUMNS)
    check(read(path, **NAMES))
    table = pa.table({**COLUMNS, "user": pa.array(COLUMNS["user"]).dictionary_encode()})
    pa.parquet.write_table(table, path)
    check(read(path))


def test_zstandard(tmp_path):
    path = tmp_path / "ratings.csv.zst"
    with pa.output_stream(str(path), compression="zstd") as stream:
        stream.write(TEXT.encode())
    assert read(path).values.tolist() == [0.25, 5.0, 0.0]


@pytest.mark.parametrize(("name", "what"), [("ratings.csv.zst", r"reading \.zst"), ("ratings.csv", "reading tables")])
def test_text_without_pyarrow(tmp_path, monkeypatch, name, what):
    path = write(tmp_path / name, TEXT)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=rf"{what} needs pyarrow: pip install pyarrow"):
        read(path)


def test_columns_named_row_col_value_come_first(tmp_path):
    path = write(tmp_path / "a.csv", "id,value,col,row\n1,2.5,x,u\n2,3.5,y,v\n")
    cells = read(path)
    assert cells.row_ids.tolist() == ["u", "v"]
    assert cells.col_ids.tolist() == ["x", "y"]
    assert cells.values.tolist() == [2.5, 3.5]


def test_quotes_byte_order_mark_and_line_endings(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfuser,"item, full",stars\r\n"a, b",x,1\r\nc,NA,2\r\n')
    cells = read(path, row="user", col="item, full", value="stars")
    assert cells.row_ids.tolist() == ["a, b", "c"]
    assert cells.col_ids.tolist() == ["NA", "x"]


def test_ids_with_line_breaks_come_back(tmp_path):
    ids, path = ["a\rb", "a\r\nb", "a\nb", "\r", "ab"], tmp_path / "a.csv"
    write_frame(path, {"row": ids, "col": ["x"] * 5, "value": np.arange(5.0)})
    assert read(path).row_ids.tolist() == sorted(ids)


def test_ids_as_written(tmp_path):
    path = write(tmp_path / "a.csv", "user,item,stars\n007,1,1\n7,1,2\n")
    assert read(path, text_ids=True).row_ids.tolist() == ["007", "7"]
    with pytest.raises(ValueError, match=r"a\.csv.*'007' and '7' of column 'user' are one number; pass text_ids=True"):
        read(path, duplicates="last")
    path = write(tmp_path / "b.csv", "user,item,stars\n007, 1,1\n08,1,2\n007,3,2\n")
    assert read(path).row_ids.tolist() == [7, 8]


@pytest.mark.parametrize("ids", [("1.0", "1"), ("9223372036854775809", "9223372036854775810")])
def test_ids_that_fall_together_as_numbers_are_refused(tmp_path, ids):
    path = write(tmp_path / "a.csv", f"user,item,stars\na,{ids[0]},1\na,{ids[1]},2\n")
    with pytest.raises(ValueError, match=rf"'{ids[0]}' and '{ids[1]}' of column 'item' are one number"):
        read(path)


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize("text", ["user,item,stars\nzoé,b,1\n", "zoé,item,stars\na,b,1\n", "user,item,stars\na,b,½\n"])
def test_text_that_is_not_utf8_is_refused(tmp_path, text, text_ids):
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(ValueError, match=r"a\.csv' is not UTF-8 text; convert it first .*iconv"):
        read(path, text_ids=text_ids)


@pytest.mark.parametrize("ending", ["csv.gz", "csv.bz2", "csv.xz", "csv.zst", "mtx.gz"])
def test_damaged_compression_names_the_file(tmp_path, ending):
    path = write(tmp_path / f"a.{ending}", TEXT)
    with pytest.raises(ValueError, match=rf"a\.{ending}' cannot be decompressed .*fetch it again"):
        read(path)
    path.write_bytes(gzip.compress(TEXT.encode() * 1000)[:60])
    with pytest.raises(ValueError, match=rf"a\.{ending}' cannot be decompressed"):
        read(path)


def test_delimiter_and_no_header(tmp_path):
    path = write(tmp_path / "a.csv", "1;2;3.5\n4;5;6\n")
    cells = read(path, delimiter=";", header=False)
    assert cells.row_ids.tolist() == [1, 4]
    assert cells.values.tolist() == [3.5, 6.0]
    assert read(path, delimiter=";", header=False, row="1", col="0", value="2").row_ids.tolist() == [2, 5]
    with pytest.raises(ValueError, match=r"looks like data.*header=False"):
        read(path, delimiter=";")
    with pytest.raises(ValueError, match=r"has columns \['1;2;3.5'\].*delimiter"):
        read(write(tmp_path / "b.csv", "1;2;3.5\n4;5;6\n"), row="1;2;3.5")


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (TEXT, {"row": "usr"}, r"row='usr' is not a column of .*available: \['user', 'item', 'stars'\]"),
        (TEXT, {"value": "score"}, "value='score' is not a column"),
        (TEXT, {"row": "item"}, "name one column twice"),
        (TEXT, {"duplicates": "first"}, "duplicates='first'"),
        ("", {}, "is empty; it should hold"),
        ("\n\n", {}, "begins with an empty line"),
        ("user,item,stars\n", {}, r"no lines \(empty input\)"),
        ("user,user,stars\na,b,1\n", {}, "repeats a name"),
        ("user,item,stars\na,b\n", {}, "not a table separated by ','"),
        ("user,item,stars\na,b,\nc,d,1\n", {}, "value='stars': 1 NaN"),
        ("user,item,stars\n,b,1\nc,d,1\n", {}, "row: ids: 1 missing"),
        ("user,item,stars\na,b,high\n", {}, "value='stars' is not numeric.*'high'"),
        ("user,item,stars\na,b,1\na,c,oops\n", {}, "value='stars' is not numeric.*e.g. 'oops'"),
        ("user,item,stars\na,b,1\na,b,2\n", {}, "1 entries repeat a cell.*'a'.*'b'"),
    ],
)
def test_bad_text_is_refused(tmp_path, text, arguments, message):
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / "a.csv", text), **arguments)


def test_duplicates_policy_reaches_the_cells(tmp_path):
    path = write(tmp_path / "a.csv", "user,item,stars\na,b,1\na,b,2\n")
    assert read(path, duplicates="mean").values.tolist() == [1.5]


def test_path_is_checked(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.csv' does not exist.*spelling"):
        read(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"the ending names the format; use one of csv, tsv"):
        read(write(tmp_path / "a.xlsx", "x"))
    with pytest.raises(ValueError, match=r"the ending names the format"):
        read(write(tmp_path / "plain", "x"))
    with pytest.raises(ValueError, match=r"the ending names the format"):
        read(write(tmp_path / "plain.gz", "x"))
    with pytest.raises(ValueError, match=r"decompress it first"):
        read(write(tmp_path / "a.parquet.gz", "x"))
    with pytest.raises(ValueError, match=r"not a parquet file"):
        read(write(tmp_path / "a.parquet", "nonsense"))


def test_a_flipped_byte_in_the_footer_of_a_parquet_file_is_an_error_that_names_it(tmp_path):
    """Of every kind that pyarrow raises: integers of more than 64 bits were a NotImplementedError."""
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"row": [0, 1], "col": [0, 1], "value": [1.0, 2.0]}), path)
    content, refused = path.read_bytes(), 0
    for place in range(len(content) - 300, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        try:
            read(path)
        except ValueError as error:
            refused += "a.parquet" in str(error)
    assert refused > 50


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_frame(path, COLUMNS)
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"reading parquet needs pyarrow: pip install pyarrow"):
        read(path)
    with pytest.raises(ImportError, match=r"writing parquet needs pyarrow: pip install pyarrow"):
        write_frame(tmp_path / "b.parquet", COLUMNS)
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]


MATRIX = sparse.coo_array(([5.0, 0.0, 2.0], ([0, 1, 2], [1, 0, 3])), shape=(4, 5))


def check_matrix(cells):
    assert cells.shape == (4, 5)
    assert cells.values.tolist() == [5.0, 0.0, 2.0]  # the stored 0 is observed
    assert cells.col_index.tolist() == [1, 0, 3]


def test_mtx(tmp_path):
    path = tmp_path / "m.mtx"
    scipy.io.mmwrite(path, MATRIX)
    check_matrix(read(path))
    (tmp_path / "m.mtx.gz").write_bytes(gzip.compress(path.read_bytes()))
    check_matrix(read(tmp_path / "m.mtx.gz"))
    with pytest.raises(ValueError, match=r"row='user' names a column, but a mtx file has none"):
        read(path, row="user")
    with pytest.raises(ValueError, match=r"not a Matrix Market file"):
        read(write(tmp_path / "bad.mtx", "nonsense"))
    with pytest.raises(ValueError, match=r"not a Matrix Market file.*banner"):
        read(write(tmp_path / "bad.mtx", TEXT * 10))
    with pytest.raises(ValueError, match=r"not a Matrix Market file"):
        read(write(tmp_path / "bad.mtx", "%%MatrixMarket a,b c\n" + TEXT * 10))
    scipy.io.mmwrite(tmp_path / "d.mtx", np.ones((2, 2)))
    assert read(tmp_path / "d.mtx").n_observed == 4


@pytest.mark.parametrize("container", ["csr", "csc", "coo"])
def test_npz_scipy(tmp_path, container):
    sparse.save_npz(tmp_path / "m.npz", MATRIX.asformat(container))
    check_matrix(read(tmp_path / "m.npz"))


def test_npz_arrays(tmp_path):
    path = tmp_path / "m.npz"
    arrays = {"row": [0, 1, 2], "col": [1, 0, 3], "value": [5.0, 0.0, 2.0]}
    np.savez(path, **arrays, shape=(4, 5))
    check_matrix(read(path))
    np.savez(path, row=["u", "v"], col=[7, 9], value=[1.0, 2.0])
    assert read(path).row_ids.tolist() == ["u", "v"]
    assert read(path).col_ids.tolist() == [7, 9]
    np.savez(path, a=[1], b=[2])
    with pytest.raises(ValueError, match=r"has columns \['a', 'b'\]"):
        read(path)


def test_npz_that_is_none(tmp_path):
    path = write(tmp_path / "m.npz", TEXT)
    with pytest.raises(ValueError, match=r"m\.npz' is not an npz archive"):
        read(path)
    path.write_bytes(b"PK\x03\x04 and nothing behind it")
    with pytest.raises(ValueError, match=r"m\.npz' is not an npz archive"):
        read(path)
    with open(path, "wb") as file:
        np.save(file, np.ones(3))  # one array, no archive of them
    with pytest.raises(ValueError, match=r"m\.npz' is not an npz archive"):
        read(path)
    np.savez(path, row=np.array(["a", 1], dtype=object), col=[0, 1], value=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"m\.npz': array 'row' is damaged: it holds Python objects.*store numbers"):
        read(path)


def test_h5ad_that_is_none(tmp_path):
    pytest.importorskip("h5py")
    with pytest.raises(ValueError, match=r"m\.h5ad' is not an h5ad file"):
        read(write(tmp_path / "m.h5ad", TEXT))


@pytest.mark.parametrize("encoding", ["csr", "csc"])
def test_h5ad(tmp_path, encoding):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "m.h5ad"
    matrix = MATRIX.asformat(encoding)
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": f"{encoding}_matrix", "shape": matrix.shape})
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(matrix, name)
        file.create_group("obs").attrs["_index"] = "cell"
        file["obs"]["cell"] = ["d", "c", "b", "a"]
    cells = read(path)
    check_matrix(cells)
    assert cells.row_ids.tolist() == ["d", "c", "b", "a"]
    assert cells.col_ids.tolist() == list(range(5))
    with h5py.File(path, "w") as file:
        file["X"] = np.ones((2, 2))
        file["layers/log"] = np.array([[1.0, np.nan], [0.0, 2.0]])
    with pytest.raises(ValueError, match=r"X is .*not a sparse matrix.*store X as csr"):
        read(path)
    assert read(path, layer="log").values.tolist() == [1.0, 0.0, 2.0]
    with pytest.raises(ValueError, match=r"layer='raw' is no layer of .*available: \['log'\]"):
        read(path, layer="raw")
    with pytest.raises(ValueError, match=r"layer='log': only h5ad files have layers, not csv"):
        read(write(tmp_path / "a.csv", TEXT), layer="log")


def test_h5ad_without_h5py(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"h5ad needs h5py: pip install h5py"):
        read(write(tmp_path / "m.h5ad", "x"))


def test_write_frame_is_whole_or_nothing(tmp_path):
    path = write(tmp_path / "a.csv", "old")

    class Broken:
        def __len__(self):
            return 4

        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        write_frame(path, {**COLUMNS, "stars": Broken()})
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
    write_frame(path, {"x": np.array([1, 2]), "s": np.array(["u", "v,w"])})
    assert path.read_text() == 'x,s\n1,u\n2,"v,w"\n'
    assert path.stat().st_mode & 0o400


def test_write_frame_refuses(tmp_path):
    with pytest.raises(ValueError, match=r"columns: lengths .*one length"):
        write_frame(tmp_path / "a.csv", {"x": [1], "y": [1, 2]})
    with pytest.raises(ValueError, match=r"columns: lengths"):
        write_frame(tmp_path / "a.csv", {})
    with pytest.raises(ValueError, match=r"use \.csv, \.tsv"):
        write_frame(tmp_path / "a.xlsx", COLUMNS)
    with pytest.raises(FileNotFoundError, match=r"folder .* does not exist; create it"):
        write_frame(tmp_path / "none" / "a.csv", COLUMNS)


def test_cells_survive_a_round_trip_through_a_table(tmp_path):
    cells = Cells.from_frame(COLUMNS, **NAMES)
    write_frame(tmp_path / "a.csv", {name: column.to_numpy() for name, column in cells.to_frame().items()})
    check(read(tmp_path / "a.csv"))


INDEXED = "{first},who,what,much\n0,ann,20,5\n1,bob,10,0\n"


@pytest.mark.parametrize("first", ["", "Unnamed: 0", "line"])
def test_columns_are_never_guessed(tmp_path, first):
    """The first three columns of a table written with its index are (index, who, what)."""
    path = write(tmp_path / "a.csv", INDEXED.format(first=first))
    with pytest.raises(ValueError, match=r"has columns \[.*'who', 'what', 'much'\].*name them with row=, col=, value="):
        read(path)
    with pytest.raises(ValueError, match=r"not clear: name them with value="):
        read(path, row="who", col="what")
    assert read(path, row="who", col="what", value="much").row_ids.tolist() == ["ann", "bob"]


def test_an_unnamed_column_is_no_id(tmp_path):
    path = write(tmp_path / "a.csv", ",user,item\n0,1,20\n1,2,10\n")
    with pytest.raises(ValueError, match="not clear: name them with row=, col=, value="):
        read(path)


def test_what_is_left_after_naming(tmp_path):
    path = write(tmp_path / "a.csv", "item,stars,user\n20,5,ann\n10,0,bob\n")
    assert read(path, row="user", col="item").values.tolist() == [5.0, 0.0]


# --- damaged matrices ---------------------------------------------------------------------------------------------

DAMAGES = [
    ("indptr", 1, 10**6, "indptr falls from 1000000 to"),
    ("indptr", 4, 10**6, "indptr ends with 1000000, and there are 3 indices"),
    ("indices", 0, 10**8, "indices has 100000000 at place 0, outside 0 … 4"),
    ("indices", 0, -3, "indices has -3 at place 0"),
]


def damaged(part, at, value):
    """The parts of a csr matrix, one entry of them changed."""
    matrix = MATRIX.tocsr()
    parts = {name: getattr(matrix, name).copy() for name in ("data", "indices", "indptr")}
    parts[part][at] = value
    return parts


@pytest.mark.parametrize(("part", "at", "value", "told"), DAMAGES)
def test_a_damaged_sparse_matrix_in_npz_is_named(tmp_path, part, at, value, told):
    path = tmp_path / "m.npz"
    np.savez(path, format=b"csr", shape=MATRIX.shape, **damaged(part, at, value))
    with pytest.raises(ValueError, match=rf"path='.*m\.npz': .*{told}.*; write it again"):
        read(path)


def test_npz_with_parts_that_are_missing_or_wrong(tmp_path):
    path = tmp_path / "m.npz"
    parts = damaged("indptr", 0, 0)
    np.savez(path, format=b"csr", shape=MATRIX.shape, data=parts["data"], indices=parts["indices"])
    with pytest.raises(ValueError, match=r"m\.npz' has no array 'indptr'"):
        read(path)
    np.savez(path, format=b"csr", shape=(4,), **parts)
    with pytest.raises(ValueError, match=r"m\.npz': shape \[4\] is not that of a matrix"):
        read(path)
    np.savez(path, format=b"coo", shape=(4, 5), row=[0, 9], col=[0, 1], data=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"m\.npz' is not a sparse matrix of scipy"):
        read(path)


@pytest.mark.parametrize(("part", "at", "value", "told"), DAMAGES)
def test_a_damaged_sparse_matrix_in_h5ad_is_named(tmp_path, part, at, value, told):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "m.h5ad"
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "shape": MATRIX.shape})
        for name, array in damaged(part, at, value).items():
            group[name] = array
    with pytest.raises(ValueError, match=rf"path='.*m\.h5ad': X: .*{told}.*; write it again"):
        read(path)


HEAD = "%%MatrixMarket matrix coordinate real general\n"
MARKETS = {
    "a NUL byte": (HEAD + "2 2 1\n1 1 \0\n", "could not convert"),
    "an exponent cut off": (HEAD + "2 2 2\n1 1 1.5\n2 2 3.1E-", "could not convert"),
    "a line less": (HEAD + "2 2 2\n1 1 1.5\n", "1 lines of 3 numbers in place of 2 of 3"),
    "a number less": (HEAD + "2 2 2\n1 1 1.5\n1 2\n", "number of columns changed"),
    "a position outside": (HEAD + "2 2 1\n3 1 1.5\n", "a position is outside 1 … 2"),
    "half a position": (HEAD + "2 2 1\n1.5 1 1.5\n", "a position is outside"),
    "rows without end": (HEAD + "99999999999 2 1\n1 1 1.5\n", "are not those of a matrix"),
    "sizes that are none": (HEAD + "2 2\n1 1 1.5\n", "its sizes are"),
    "complex numbers": (HEAD.replace("real", "complex") + "2 2 1\n1 1 1 1\n", "its banner says 'complex'"),
}


@pytest.mark.parametrize("name", MARKETS)
def test_damaged_matrix_market_files_are_refused(name, tmp_path):
    """scipy's reader ended the process at the first two."""
    text, told = MARKETS[name]
    with pytest.raises(ValueError, match=rf"m\.mtx' is not a Matrix Market file: .*{told}"):
        read(write(tmp_path / "m.mtx", text))
    (tmp_path / "m.mtx.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(ValueError, match=r"m\.mtx\.gz' is not a Matrix Market file"):
        read(tmp_path / "m.mtx.gz")


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
def test_matrix_market_is_read_as_scipy_reads_it(symmetry, field, tmp_path):
    if (field, symmetry) == ("pattern", "skew-symmetric"):
        pytest.skip("there are none")
    value = {"real": " 2.5e0", "integer": " -3", "pattern": ""}[field]
    path = write(
        tmp_path / "m.mtx",
        f"%%MatrixMarket matrix coordinate {field} {symmetry}\n% a remark\n\n4 4 2\n2 1{value}\n4 3{value}\n",
    )
    expected = scipy.io.mmread(path).toarray()
    assert np.array_equal(read(path).to_scipy().toarray(), expected)


@pytest.mark.parametrize(("mark", "row"), [(";", None), (";", "user"), ("|", None)])
def test_another_delimiter_is_suggested(tmp_path, mark, row):
    file = tmp_path / "ratings.csv"
    file.write_text(mark.join(["user", "item", "stars"]) + "\n" + mark.join(["1", "2", "3"]) + "\n")
    with pytest.raises(ValueError, match=rf"pass delimiter='\{mark}', by which its header is divided"):
        read(file, row=row)


def test_usual_names_among_more_columns(tmp_path):
    file = tmp_path / "ratings.csv"
    file.write_text("timestamp,movieId,userId,rating\n9,1,7,3.5\n8,2,7,4\n")
    cells = read(file)
    assert cells.row_ids.tolist() == [7] and cells.col_ids.tolist() == [1, 2] and cells.values.tolist() == [3.5, 4.0]


@pytest.mark.parametrize("ending", [".csv", ".tsv.gz", ".parquet"])
@pytest.mark.parametrize("index", [None, "who"])
def test_wide_tables(tmp_path, ending, index):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, None], "who": ["x", "y"], "b": [2.5, 3.0]})
    frame = frame if index else frame[["who", "a", "b"]]
    file = tmp_path / f"table{ending}"
    if ending == ".parquet":
        frame.to_parquet(file)
    else:
        frame.to_csv(file, sep="," if ending == ".csv" else "\t", index=False)
    if ending == ".parquet" and index is None:
        with pytest.raises(ValueError, match="the column 'who' does not hold numbers"):
            read(file, wide=True)
        return
    cells = read(file, wide=True, index=index)
    assert cells.row_ids.tolist() == ["x", "y"] and cells.col_ids.tolist() == ["a", "b"]
    assert cells.values.tolist() == [1.0, 2.5, 3.0]


def test_wide_tables_with_an_index_without_a_name(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text(",a,b\n7,1,NA\n9,2,nan\n")
    cells = read(file, wide=True)
    assert cells.row_ids.tolist() == [7, 9] and cells.values.tolist() == [1.0, 2.0] and cells.shape == (2, 2)
    file.write_text("1;2\n3;\n")
    cells = read(file, wide=True, delimiter=";", header=False)
    assert cells.row_ids.tolist() == [0, 1] and cells.values.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("a,b\n1,2\n", {"wide": False, "index": "a"}, "index='a' is the column of row ids in a wide table; pass wide"),
        ("a,b\n1,2\n", {"row": "a"}, "row='a' is for tables with one line per cell; leave it out with wide=True"),
        ("a,b\n1,2\n", {"index": "who"}, r"index='who' is not a column of .*; available: \['a', 'b'\]"),
        ("a;b\n1;2\n", {}, "has one column, 'a;b'; pass delimiter=';'"),
        ("a,b\n1,2\n3\n", {}, "not a table separated by ',': .*Expected 2 columns, got 1"),
        ("a,b\n1,red\n", {}, r"the column 'b' does not hold numbers \(e\.g\. 'red'\)"),
    ],
)
def test_wide_tables_that_cannot_be_read(tmp_path, text, options, told):
    file = tmp_path / "table.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=told):
        read(file, **{"wide": True, **options})
