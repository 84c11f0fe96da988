"""Files that are not what they should be: mutants of model files, checkpoints, datasets on disk and tables.

    python -m benchmarks.fuzz --count 20000
    python -m benchmarks.fuzz --only model --first 4710 --count 2

Half of the mutants are raw (bits, bytes, lengths, splices). Half are well-formed: a field, an array, a number or a name
is changed, and checksums and directories are made anew. Each case is made by its number alone. Cases run in child
processes that may use 5 seconds of processor time for one, and 1 GB of memory more than at the start. A case fails if
the process dies or hangs, at an error of an undeclared kind, at an answer that is not finite, and if a raw mutant of a
file with checksums gives another answer than the file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nmar
from nmar.data.manifest import Manifest, find_manifest
from nmar.data.storage import Storage
from nmar.estimators.stored import digest_of

SECONDS, MEMORY, WALL = 5, 1 << 30, 60  # of processor time, bytes, seconds on the clock
OPTIONS = {"factors": 2, "max_iter": 2, "tol": 0.0, "random_state": 0, "n_jobs": 1}
NUMBERS = (
    0,
    -1,
    1,
    2,
    127,
    2**31 - 1,
    2**31,
    2**63 - 1,
    2**64,
    10**30,
    0.5,
    -0.5,
    1e-300,
    1e300,
    float("nan"),
    float("inf"),
)
TEXTS = ("", "0", "nan", "1e999", "-1", "\0", "é", "9" * 400, '"', "\r\n", ",", "%%", "gaussian", "x" * 5000)
Rng = np.random.Generator


class Kind(NamedTuple):
    """A kind of file: the originals, how to ask a question of one, and how to make a well-formed mutant."""

    seeds: list[Path]
    ask: Callable[[Path, Path], Any]  # of a mutant, and of the original it was made of
    change: Callable[[Path, Rng], None]  # a copy of an original, in place
    checked: bool  # whether raw mutants are found out


# --- originals ------------------------------------------------------------------------------------------------------


def originals(folder: Path, only: str | None = None) -> dict[str, Kind]:
    """Small files of every kind, or of one, made anew."""
    cells = nmar.simulate((12, 9), nmar.Factorization(1), density=0.5, seed=0)[0]
    warnings.simplefilter("ignore")
    made: dict[str, Kind] = {}
    if only in (None, "model"):
        models = [_saved(folder / f"{name}.nmar", model, cells) for name, model in _models().items()]
        made["model"] = Kind(models, _ask_model, _change_model, True)
    if only in (None, "checkpoint"):
        runs = [folder / f"run-{name}" for name in ("full", "poisson")]
        for run in runs:
            name = run.name.removeprefix("run-")
            _models()[name].fit(_values(cells, name), checkpoint=run, every=1)
        made["checkpoint"] = Kind(runs, _ask_run, lambda at, rng: _change_model(_newest(at), rng), True)
    if only in (None, "dataset"):
        store = folder / "store"
        nmar.Dataset.from_cells(cells.with_weights(1.0 + np.arange(len(cells)) % 2), store)
        made["dataset"] = Kind([store], _ask_store, _change_store, True)
    tables = {kind: Kind(files, _ask_table, change, False) for kind, files, change in _tables(folder, cells)}
    return made | {kind: one for kind, one in tables.items() if only in (None, kind)}


def _models() -> dict[str, nmar.CCPF]:
    features = np.random.default_rng(0).normal(size=(9, 2))
    from sklearn.linear_model import Ridge

    given: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "full": (nmar.Factorization(1), "linear", {}),
        "plain": (nmar.Factorization(2), "ignorable", {"noise": "rows+cols", "tail": True}),
        "poisson": (nmar.Factorization(1, family="poisson"), "free", {}),
        "diagonal": (nmar.Factorization(2, covariance="diagonal"), nmar.Geometric(thinning=4.0), {}),
        "mixture": (nmar.Mixture(2, restarts=1), "compound", {}),
        "levels": (nmar.Effects("both", family="levels", styles=2), "ignorable", {}),
        "covariates": (nmar.Factorization(1, cols=features), "linear", {}),
        "constant": (nmar.Constant("gamma"), "exponential", {}),
        "value": (nmar.Effects("rows"), "ignorable", {"mechanism": "value"}),
        "ridge": (nmar.Regressor(Ridge(), col_features=features), "linear", {}),
        "pattern": (nmar.PatternOnly(), "ignorable", {"prior": "learned"}),
    }
    return {name: nmar.CCPF(data, link, **OPTIONS, **more) for name, (data, link, more) in given.items()}


def _values(cells: nmar.Cells, name: str) -> nmar.Cells:
    if name in ("poisson", "levels"):
        return cells.with_values(np.clip(np.round(np.abs(cells.values)), 0.0, 4.0))
    return cells.with_values(np.abs(cells.values) + 0.1) if name == "constant" else cells


def _saved(path: Path, model: nmar.CCPF, cells: nmar.Cells) -> Path:
    model.fit(_values(cells, path.stem)).save(path, seen=True)
    return path


def _tables(folder: Path, cells: nmar.Cells) -> list[tuple[str, list[Path], Callable[[Path, Rng], None]]]:
    """Cells as csv, parquet, mtx, npz and h5ad."""
    import h5py
    import pyarrow
    import pyarrow.parquet
    import scipy.io
    import scipy.sparse

    i, j = cells.positions()
    csv, parquet, mtx = folder / "a.csv", folder / "a.parquet", folder / "a.mtx"
    lines = [f"r{a},{b},{y:.4f}" for a, b, y in zip(i, j, cells.values, strict=True)]
    csv.write_text("\n".join(["row,col,value", *lines]) + "\n")
    pyarrow.parquet.write_table(pyarrow.table({"row": i, "col": j, "value": cells.values}), parquet)
    matrix = scipy.sparse.csr_array(cells.to_scipy())
    scipy.io.mmwrite(mtx, matrix)
    npz = [folder / f"{name}.npz" for name in ("csr", "coo", "arrays")]
    scipy.sparse.save_npz(npz[0], scipy.sparse.csr_matrix(matrix))
    scipy.sparse.save_npz(npz[1], scipy.sparse.coo_matrix(matrix), compressed=False)
    np.savez(npz[2], row=i, col=j, value=cells.values, shape=np.array(cells.shape))
    h5ad = folder / "a.h5ad"
    with h5py.File(h5ad, "w") as file:
        group = file.create_group("X")
        group.attrs.update(
            {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": np.array(matrix.shape)}
        )
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(matrix, name)
    return [
        ("csv", [csv], _change_text),
        ("parquet", [parquet], _change_parquet),
        ("mtx", [mtx], _change_text),
        ("npz", npz, _change_npz),
        ("h5ad", [h5ad], _change_h5ad),
    ]


# --- questions ------------------------------------------------------------------------------------------------------


def _finite(*answers: Any) -> tuple[str, ...]:
    """Digests of answers, all of which are finite."""
    for answer in answers:
        if not np.all(np.isfinite(np.asarray(answer, float))):
            raise ArithmeticError(f"an answer that is not finite: {np.asarray(answer).ravel()[:5]}")
    return tuple(np.asarray(answer).tobytes().hex()[:32] for answer in answers)


def _ask_model(path: Path, original: Path) -> Any:
    model = nmar.load(path)
    known = model.posterior_
    rows, cols = known.rows.ids[:4], known.cols.ids[-4:]
    i, j = rows[: len(cols)], cols[: len(rows)]
    answers = [model.observed_probability(i, j)]
    if known.law.data.has_values:
        answers += [model.predict_entries(i, j), model.interval(i, j), model.sample(i, j, n=2, seed=0)]
    if model._seen is not None:
        answers.append(model._seen.values)
    return _finite(*answers)


def _newest(folder: Path) -> Path:
    return max(folder.glob("*.nmar"))


def _ask_run(folder: Path, original: Path) -> Any:
    """A fit that goes on from the folder ends where the one that wrote it ended."""
    name = original.name.removeprefix("run-")
    cells = nmar.simulate((12, 9), nmar.Factorization(1), density=0.5, seed=0)[0]
    model = _models()[name].set_params(max_iter=3).fit(_values(cells, name), checkpoint=folder, resume=True)
    ids = model.posterior_.rows.ids[:4], model.posterior_.cols.ids[:4]
    return _finite(model.bound_trace_, model.predict_entries(*ids))


def _ask_store(folder: Path, original: Path) -> Any:
    dataset = nmar.Dataset(folder)
    cells = dataset.to_cells()
    _finite(cells.values, *(part.values for part in dataset.batches(16)))
    return digest_of(cells), [repr(axis) for axis in (dataset.rows, dataset.cols)]


def _ask_table(path: Path, original: Path) -> Any:
    cells = nmar.read(path)
    return _finite(cells.values, cells.by(1).values)


# --- mutants --------------------------------------------------------------------------------------------------------


def raw(data: bytes, rng: Rng) -> bytes:
    """Flip, cut, insert, overwrite or repeat bytes."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(out) or 1))
        how = int(rng.integers(6))
        if how <= 1 and out:
            out[at % len(out)] ^= 1 << int(rng.integers(8))
        elif how == 2:
            del out[at:]
        elif how == 3:
            del out[at : at + int(rng.integers(1, 32))]
        elif how == 4:
            out[at:at] = rng.bytes(int(rng.integers(1, 16)))
        else:
            word = int(rng.choice([0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF])).to_bytes(8, "little")
            out[at : at + 4] = word[:4]
    return bytes(out)


def other_number(rng: Rng, old: Any = 0) -> Any:
    """A number in place of another."""
    some = NUMBERS[int(rng.integers(len(NUMBERS)))]
    return [some, -old, old + 1, old * 1000, True][int(rng.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1]))]


def other_array(array: np.ndarray, rng: Rng) -> np.ndarray:
    """An array with another entry, length, shape, order or type."""
    array = array.copy()
    how = int(rng.integers(9))
    if how <= 3 and array.size and array.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            value = other_number(rng, array.flat[0].item())
            with contextlib.suppress(OverflowError, ValueError):
                array.flat[int(rng.integers(array.size))] = value
        return array
    if how == 4 and array.ndim:
        return array[: int(rng.integers(len(array) + 1))]
    if how == 5 and array.ndim:
        return np.concatenate([array, array[:1]])
    if how == 6:
        return array.reshape(-1) if array.ndim > 1 else array[None]
    if how == 7:
        return array[::-1].copy() if array.ndim else array
    return array.astype([np.float32, np.int8, ">f8", np.complex128, "U9", bool][int(rng.integers(6))])


def _nodes(tree: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every place of a tree of JSON: container and key."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found.append((tree, key))
        _nodes(value, found)
    return found


def _change_tree(tree: Any, rng: Rng) -> None:
    places = _nodes(tree, [])
    holder, key = places[int(rng.integers(len(places)))]
    old = holder[key]
    how = int(rng.integers(8))
    if isinstance(old, int | float) and not isinstance(old, bool) and how < 5:
        holder[key] = other_number(rng, old)
    elif how == 5 and isinstance(holder, dict):
        del holder[key]
    elif how == 6:
        other, name = places[int(rng.integers(len(places)))]
        holder[key] = json.loads(json.dumps(other[name]))
    elif how == 7 and isinstance(old, list):
        holder[key] = old * int(rng.integers(0, 3))
    else:
        holder[key] = [None, TEXTS[int(rng.integers(len(TEXTS)))], [], {}, other_number(rng)][int(rng.integers(5))]


def _change_model(path: Path, rng: Rng) -> None:
    """Another tree, array or name; a file that is whole."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    arrays = [name for name in parts if name.endswith(".npy")]
    if rng.random() < 0.5:
        header = json.loads(parts["header.json"])
        _change_tree(header, rng)
        parts["header.json"] = json.dumps(header).encode()
    elif rng.random() < 0.9:
        name = arrays[int(rng.integers(len(arrays)))]
        array = np.load(io.BytesIO(parts[name]))
        schema = array.dtype == np.uint8 and array.tobytes()[:2] == b"PK"  # an estimator
        made = np.frombuffer(raw(array.tobytes(), rng), np.uint8) if schema else other_array(array, rng)
        buffer = io.BytesIO()
        np.save(buffer, made)
        parts[name] = buffer.getvalue()
    else:
        one, other = rng.choice(arrays, 2)
        parts[one], parts[other] = parts[other], parts[one]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED if rng.random() < 0.95 else zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            file.writestr(name, part)


def _change_store(folder: Path, rng: Rng) -> None:
    """Another file or manifest, with checksums that are right."""
    storage = Storage(str(folder))
    manifest = find_manifest(storage)
    assert manifest is not None
    record = manifest.record
    if rng.random() < 0.3:
        _change_tree({k: v for k, v in record.items() if k not in ("format", "version")}, rng)
    else:
        name = sorted(manifest.files)[int(rng.integers(len(manifest.files)))]
        data = (folder / name).read_bytes()
        kind = np.int64 if name.endswith("indptr") else np.int32 if name.endswith("indices") else np.float32
        if name.endswith(".npz") or rng.random() < 0.3:
            data = raw(data, rng)
        else:
            whole = np.frombuffer(data, np.float64 if name.endswith("weights") else kind)
            made = other_array(whole, rng)
            data = made.astype(whole.dtype, copy=False).tobytes() if made.dtype.kind in "iuf" else made.tobytes()
        record["files"] = {**record["files"], name: storage.write(name, np.frombuffer(data, np.uint8).copy())}
    with contextlib.suppress(TypeError, KeyError, ValueError):
        fields = {k: v for k, v in record.items() if k not in ("format", "version")}
        Manifest(**fields).write(storage)


def _change_text(path: Path, rng: Rng) -> None:
    """Another field, line or header."""
    lines = path.read_text().split("\n")
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(min(len(lines), 6) if rng.random() < 0.4 else len(lines)))
        cut = "," if path.suffix == ".csv" else " "
        fields = lines[at].split(cut)
        how, place = int(rng.integers(6)), int(rng.integers(len(fields)))
        if how <= 2:
            fields[place] = TEXTS[int(rng.integers(len(TEXTS)))] if rng.random() < 0.5 else str(other_number(rng))
        elif how == 3:
            fields = fields[:place] + fields[place + 1 :] if rng.random() < 0.5 else [*fields, fields[place]]
        elif how == 4:
            lines.insert(at, lines[at])
        lines[at] = cut.join(fields)
        if how == 5 and len(lines) > 1:
            del lines[at]
    path.write_text("\n".join(lines))


def _change_parquet(path: Path, rng: Rng) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    name = list(columns)[int(rng.integers(3))]
    new = other_array(columns[name], rng).ravel()
    made: list[Any] = new.tolist() if new.dtype.kind != "c" else [str(v) for v in new]
    made = (made * 2 + [0] * len(table))[: len(table)]
    if rng.random() < 0.3:
        made[int(rng.integers(len(made)))] = [None, "x", float("nan")][int(rng.integers(3))]
    with contextlib.suppress(pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
        pyarrow.parquet.write_table(pyarrow.table({**columns, name: pyarrow.array(made)}), path)


def _change_npz(path: Path, rng: Rng) -> None:
    with np.load(path) as archive:
        arrays = dict(archive)
    name = list(arrays)[int(rng.integers(len(arrays)))]
    if rng.random() < 0.1:
        del arrays[name]
    else:
        arrays[name] = np.array(b"bsr") if name == "format" and rng.random() < 0.5 else other_array(arrays[name], rng)
    np.savez(path, **arrays)


def _change_h5ad(path: Path, rng: Rng) -> None:
    import h5py

    with h5py.File(path, "r+") as file:
        group = file["X"]
        name = ("data", "indices", "indptr", "shape", "encoding-type")[int(rng.integers(5))]
        if name in group:
            made = other_array(group[name][:], rng)
            del group[name]
            group[name] = made.astype("S9") if made.dtype.kind == "U" else made
        elif name == "shape":
            group.attrs["shape"] = other_array(group.attrs["shape"], rng).astype(np.int64)
        else:
            group.attrs[name] = TEXTS[int(rng.integers(len(TEXTS)))].replace("\0", "")


# --- one case -------------------------------------------------------------------------------------------------------


def make(kind: Kind, number: int, seed: int, folder: Path) -> tuple[Path, Path, bool]:
    """The mutant of this number, the original, and whether it is a raw one."""
    rng = np.random.default_rng([seed, number])
    original = kind.seeds[int(rng.integers(len(kind.seeds)))]
    target = folder / original.name
    shutil.rmtree(target, ignore_errors=True) if target.is_dir() else target.unlink(missing_ok=True)
    (shutil.copytree if original.is_dir() else shutil.copy)(original, target)
    if number % 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind.change(target, rng)
        return target, original, False
    files = sorted(one for one in target.rglob("*") if one.is_file()) if target.is_dir() else [target]
    file = files[int(rng.integers(len(files)))]
    file.write_bytes(raw(file.read_bytes(), rng))
    return target, original, True


def judge(kind: Kind, number: int, seed: int, folder: Path, answers: dict[Path, Any]) -> str:
    """What became of a case: "refused", "answered", "unmade", or what is wrong."""
    try:
        path, original, is_raw = make(kind, number, seed, folder)
    except Exception:  # of a library that cannot write what was asked for
        return "unmade"
    try:
        answer = kind.ask(path, original)
    except (ValueError, OSError, ImportError, FloatingPointError) as error:  # the last one of fits alone
        if isinstance(error, OSError) and error.errno not in (None, 2, 20, 21):
            return f"error: {type(error).__name__}: {error}"[:300]
        return "refused"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"error: {type(error).__name__}: {str(error)[:200]} ({Path(where.filename).name}:{where.lineno})"
    if is_raw and kind.checked:
        if original not in answers:
            whole = folder / "whole" / original.name
            whole.parent.mkdir(exist_ok=True)
            (shutil.copytree if original.is_dir() else shutil.copy)(original, whole)
            answers[original] = kind.ask(whole, original)
        if answer != answers[original]:
            return "silently different"
    return "answered"


def child(kinds: dict[str, Kind], cases: list[tuple[str, int]], seed: int, pipe: int) -> None:
    """Run cases one after the other, saying each result in a line."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as folder, os.fdopen(pipe, "w") as out:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libhdf5 tells its errors there
        answers: dict[Path, Any] = {}
        for name, number in cases:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            found = judge(kinds[name], number, seed, Path(folder), answers)
            signal.setitimer(signal.ITIMER_PROF, 0)
            out.write(found.replace("\n", " ") + "\n")
            out.flush()


def run(kinds: dict[str, Kind], cases: list[tuple[str, int]], seed: int, tell: Callable[..., None]) -> None:
    """All cases, in children that are replaced when they die."""
    while cases:
        into, out = os.pipe()
        process = os.fork()
        if process == 0:
            try:
                os.close(into)
                child(kinds, cases, seed, out)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(out)
        done, hung = 0, False
        with os.fdopen(into) as stream:
            while True:
                if not select.select([stream], [], [], WALL)[0]:
                    os.kill(process, signal.SIGKILL)
                    hung = True
                line = stream.readline()
                if not line:
                    break
                tell(*cases[done], line.rstrip("\n"))
                done += 1
        _, status = os.waitpid(process, 0)
        if done < len(cases):
            tell(*cases[done], _how_it_died(status, hung))
            done += 1
        cases = cases[done:]


def _how_it_died(status: int, hung: bool) -> str:
    if hung:
        return f"hang: {WALL} s on the clock"
    name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
    return f"hang: {SECONDS} s of processor time" if name == "SIGPROF" else f"crash: {name}"


def campaign(count: int, seed: int = 0, only: str | None = None, first: int = 0) -> tuple[Counter[str], list[str]]:
    """How cases ended by kind of file, and the failures."""
    counted: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        kinds = originals(Path(folder), only)
        for name, kind in kinds.items():  # compiled before the processes are forked
            for original in kind.seeds:
                copy = Path(folder) / "asked" / name / original.name
                copy.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if original.is_dir() else shutil.copy)(original, copy)
                kind.ask(copy, original)
        names = list(kinds)

        def tell(name: str, number: int, found: str) -> None:
            good = found in ("refused", "answered", "unmade")
            counted[f"{name}: {found if good else 'FAILED'}"] += 1
            if not good:
                failures.append(f"{name} {number}: {found}")
                print(failures[-1], file=sys.stderr, flush=True)

        run(kinds, [(names[k // 2 % len(names)], k) for k in range(first, first + count)], seed, tell)
    return counted, failures


def main() -> None:
    """Run a campaign and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", help="one kind of file")
    args = parser.parse_args()
    counted, failures = campaign(args.count, args.seed, args.only, args.first)
    for name, number in sorted(counted.items()):
        print(f"{number:7d}  {name}")
    print(f"{sum(counted.values())} mutants, {len(failures)} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
