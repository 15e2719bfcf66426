"""Build what is released, into dist/: the wheel, and the collection's tarball with that wheel inside.

Everything that git does not ignore is taken as it stands in the working tree; a release is made from a clean one.
The wheel is reproducible: its times are that of the last commit, and hatchling sorts its entries.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
WHEEL_FOLDER = "files"  # of the collection


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "dist", help="where to put both (dist/)")
    directory = parser.parse_args().directory
    for path in build(directory.resolve()):
        say(str(path))
    if output("git", "status", "--porcelain"):
        say("note: the working tree differs from the last commit; release from a clean one")
    return 0


def build(directory: Path) -> tuple[Path, Path]:
    """Put wheel and tarball into ``directory``; returns their paths in this order."""
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="agentbox-dist-") as staging:
        tree = Path(staging)
        copy_sources(tree)
        wheel = build_wheel(tree, directory)
        (tree / WHEEL_FOLDER).mkdir()
        shutil.copy(wheel, tree / WHEEL_FOLDER)
        return wheel, build_collection(tree, directory)


def copy_sources(tree: Path) -> None:
    """Copy every file to the same place below ``tree``, readable by everyone whatever the umask here is."""
    for name in filter(None, output("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")):
        source, target = ROOT / name, tree / name
        if not os.path.lexists(source):  # deleted and not yet committed
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target, follow_symlinks=False)
        if not target.is_symlink():
            target.chmod(0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644)


def build_wheel(tree: Path, directory: Path) -> Path:
    environment = os.environ | {"SOURCE_DATE_EPOCH": output("git", "log", "-1", "--format=%ct").strip()}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=True)
    return newest(directory, "*.whl")


def build_collection(tree: Path, directory: Path) -> Path:
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    command = [str(galaxy), "collection", "build", "--force", "--output-path", str(directory), str(tree)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return newest(directory, "*.tar.gz")


def newest(directory: Path, pattern: str) -> Path:
    """What was just built; older versions may lie beside it."""
    return max(directory.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
