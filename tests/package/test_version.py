"""The version has one source; files, pages and the change log agree with it, also after the release script."""

import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from processes import run_python

import int8blas
from int8blas import _version

ROOT = pathlib.Path(__file__).parents[2]
SECTION = re.compile(r"^## \[(.*?)\](?: - (\d{4}-\d\d-\d\d))?$", re.MULTILINE)
# How pages name the version that they measured: "int8blas 0.1.0", "int8blas (avx2) 0.1.0".
MEASURED = re.compile(r"\bint8blas (?:\(\w+\) )?(\d+\.\d+\.\d+(?:\.dev0)?)")


def numbers(version):
    return tuple(map(int, re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:\.dev0)?", version).groups()))


def git(root, *arguments):
    author = "-c", "user.name=A", "-c", "user.email=a@b.invalid"
    return subprocess.run(["git", "-C", root, *author, *arguments], check=True, capture_output=True, text=True).stdout


# ------------------------------------------------------------------------------------------- files with a version ----


def assert_one_version(root):
    """Check that all files of a checkout state the same version."""
    (version,) = re.findall(r'^__version__ = "(.*)"$', (root / "int8blas" / "_version.py").read_text(), re.MULTILINE)
    assert re.findall(r"^version: (.*)$", (root / "CITATION.cff").read_text(), re.MULTILINE) == [version]
    (first, date), *past = SECTION.findall((root / "CHANGELOG.md").read_text())
    assert (first, bool(date)) == (("Unreleased", False) if version.endswith(".dev0") else (version, True))
    released = [numbers(name) for name, _ in past]
    assert all(date for _, date in past)
    assert sorted(released, reverse=True) == released
    assert numbers(version) > max(released)
    return version


def test_files_agree_on_the_version():
    assert assert_one_version(ROOT) == int8blas.__version__


def test_the_build_takes_the_version_from_its_source():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "int8blas._version.__version__"}


def test_figures_name_versions_that_there_were():
    known = {name for name, _ in SECTION.findall((ROOT / "CHANGELOG.md").read_text())} | {int8blas.__version__}
    named = {page: MEASURED.findall(page.read_text()) for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]}
    assert named[ROOT / "README.md"]
    assert {version for versions in named.values() for version in versions} <= known


# ------------------------------------------------------------------------------------------------------ the commit ----


@pytest.fixture
def checkout(tmp_path):
    """A repository with the files that state a version, one commit and the tag v0.1.0."""
    for name in ("int8blas/_version.py", "CITATION.cff", "CHANGELOG.md", ".ci/release"):
        if not (ROOT / name).exists():
            pytest.skip("an sdist has no release script")
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "A")
    git(tmp_path, "config", "user.email", "a@b.invalid")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "All")
    git(tmp_path, "tag", "v0.1.0")
    return tmp_path


def test_the_command_prints_version_and_commit():
    process = run_python("-m", "int8blas", "--version")
    known = f" ({_version.commit()})" if _version.commit() else ""
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == f"int8blas {int8blas.__version__}{known}\n"


def test_the_commit_of_a_checkout_is_what_git_describes(checkout):
    assert _version.describe(checkout) == "v0.1.0"
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "More")
    head = git(checkout, "rev-parse", "--short", "HEAD").strip()
    assert _version.describe(checkout) == f"v0.1.0-1-g{head}"
    (checkout / "CITATION.cff").write_text("")
    assert _version.describe(checkout) == f"v0.1.0-1-g{head}-dirty"


def test_a_folder_inside_another_checkout_has_no_commit(checkout):
    """Examples are an unpacked sdist and an environment inside a checkout."""
    assert _version.describe(checkout / "int8blas") == ""


def test_without_git_there_is_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert _version.describe(checkout) == ""


def test_a_wheel_knows_what_it_was_built_from(tmp_path, monkeypatch):
    built_from = tmp_path / "_commit.txt"
    built_from.write_text("v0.1.0-7-g1234567\n")
    monkeypatch.setattr(_version, "BUILT_FROM", built_from)
    assert _version.commit() == "v0.1.0-7-g1234567"


# ---------------------------------------------------------------------------------------------- the release script ----


def release(root, *arguments):
    command = [sys.executable, root / ".ci" / "release", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture
def next_version(checkout):
    """The version that a development version becomes."""
    return int8blas.__version__.removesuffix(".dev0")


def test_a_dry_run_prints_the_release_and_changes_nothing(checkout, next_version):
    head = git(checkout, "rev-parse", "HEAD")
    process = release(checkout, next_version, "--date", "2030-01-02", "--dry-run")
    assert (process.returncode, process.stderr) == (0, "")
    for line in (f"+version: {next_version}", f"+## [{next_version}] - 2030-01-02", f"tag: v{next_version}"):
        assert line in process.stdout.splitlines()
    assert git(checkout, "rev-parse", "HEAD") == head
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "tag", "--list").split() == ["v0.1.0"]


def test_a_release_is_two_commits_and_a_tag(checkout, next_version):
    process = release(checkout, next_version, "--date", "2030-01-02", "--next", "9.9.0.dev0")
    assert (process.returncode, process.stderr) == (0, "")
    assert git(checkout, "log", "--format=%s", "-2").splitlines() == ["Begin 9.9.0", f"Release {next_version}"]
    assert assert_one_version(checkout) == "9.9.0.dev0"
    git(checkout, "checkout", "--quiet", f"v{next_version}")
    assert assert_one_version(checkout) == next_version
    assert SECTION.search((checkout / "CHANGELOG.md").read_text()).groups() == (next_version, "2030-01-02")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["77.0.0"], "must have 77.0.0.dev0 before the release of 77.0.0"),
        (["{version}", "--next", "0.0.1.dev0"], "--next must be later than {version}, got 0.0.1.dev0"),
        (["1.0"], "must be three numbers, such as 0.2.0, got '1.0'"),
        (["{version}", "--next", "9.9"], "must be a development version, such as 0.3.0.dev0, got '9.9'"),
    ],
)
def test_a_wrong_version_is_refused(checkout, next_version, arguments, message):
    process = release(checkout, *(text.format(version=next_version) for text in arguments))
    assert process.returncode != 0
    assert message.format(version=next_version) in process.stderr
    assert git(checkout, "status", "--porcelain") == ""


def test_changes_that_are_not_committed_are_refused(checkout, next_version):
    (checkout / "CITATION.cff").write_text("")
    assert "has changes that are not committed" in release(checkout, next_version).stderr


def test_a_tag_that_is_there_is_refused(checkout, next_version):
    git(checkout, "tag", f"v{next_version}")
    assert f"there is a tag v{next_version} already" in release(checkout, next_version).stderr


def test_a_change_log_without_entries_is_refused(checkout, next_version):
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-25\n\n- All.\n")
    git(checkout, "commit", "--quiet", "-am", "No entries")
    assert "has no entries under ## [Unreleased]" in release(checkout, next_version).stderr
