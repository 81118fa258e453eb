"""The wheel: what it contains, and that it works away from the repository. Needs no network."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[1]
DIST_INFO = "handgrad-0.1.0.dist-info"


def run(*command: str | Path, cwd: Path, path: Path | None = None) -> str:
    """Run `python *command` in `cwd`, with `path` alone as PYTHONPATH; return what it prints."""
    env = os.environ | {"PYTHONPATH": str(path or ""), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"python {' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under `folder`, by its path there, compiled modules left out."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the working tree as it stands."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", folder)
    run("-m", "pip", "wheel", *options, ROOT, cwd=folder)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel installed, its dependencies not: those come from the running environment."""
    folder = tmp_path_factory.mktemp("installed")
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--target", folder)
    run("-m", "pip", "install", *options, wheel, cwd=folder)
    return folder


def test_wheel_contains_the_two_packages_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    assert wheel.name == "handgrad-0.1.0-py3-none-any.whl"
    assert {name.split("/")[0] for name in packed} == {"derive", "handgrad", DIST_INFO}

    expected = {f"derive/{name}": text for name, text in contents(ROOT / "derive").items()}
    expected |= {f"derive/templates/{name}": text for name, text in contents(ROOT / "templates").items()}
    expected |= {f"handgrad/{name}": text for name, text in contents(ROOT / "generated").items()}
    modules = {name: text for name, text in packed.items() if not name.startswith(DIST_INFO)}
    assert sorted(modules) == sorted(expected)
    assert [name for name in expected if modules[name] != expected[name]] == []


def test_wheel_carries_the_templates_the_command_and_the_licence(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(f"{DIST_INFO}/entry_points.txt").decode()
    templates = {f"derive/templates/{file.name}" for file in (ROOT / "templates").glob("*.j2")}
    assert templates, "templates holds no *.j2"
    assert templates <= set(names)
    assert f"{DIST_INFO}/licenses/LICENSE" in names
    assert entry_points.split() == ["[console_scripts]", "derive", "=", "derive.cli:main"]


def test_packages_come_from_the_installed_wheel(installed: Path, tmp_path: Path) -> None:
    """Otherwise the tests below would pass on the repository's own code."""
    script = "import derive, handgrad; print(derive.__file__, handgrad.__file__, sep='\\n')"
    printed = run("-c", script, cwd=tmp_path, path=installed)
    assert printed.splitlines() == [str(installed / p / "__init__.py") for p in ("derive", "handgrad")]


# Run under either name of the package: the catalogue's, or the one just written.
TANH_HAS_ITS_GRADIENT = """
import torch
from {package} import tanh
x = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
tanh(x).sum().backward()
torch.testing.assert_close(x.grad, 1 - torch.tanh(x.detach()) ** 2)
"""


def test_installed_catalogue_works_outside_the_repository(installed: Path, tmp_path: Path) -> None:
    run("-c", TANH_HAS_ITS_GRADIENT.format(package="handgrad"), cwd=tmp_path, path=installed)


def test_installed_command_writes_a_package_where_it_is_told(installed: Path, tmp_path: Path) -> None:
    catalogue, wheel_files = contents(ROOT / "generated"), contents(installed)
    run("-m", "derive.cli", "generate", "tanh", "--out", tmp_path / "mine", cwd=tmp_path, path=installed)

    shared = {"__init__", "_derivatives", "_support", "orders/__init__", "orders/_transforms"}
    assert set(contents(tmp_path)) == {f"mine/{name}.py" for name in {*shared, "tanh", "orders/tanh"}}
    assert contents(ROOT / "generated") == catalogue, "it wrote into the repository"
    assert contents(installed) == wheel_files, "it wrote into the installed packages"
    # The current folder, where `mine` lies, comes first on the path of `python -c`.
    run("-c", TANH_HAS_ITS_GRADIENT.format(package="mine"), cwd=tmp_path, path=installed)
