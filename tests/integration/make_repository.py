"""Runs on a throwaway host, as root: build packages, sign their repository, and serve it.

``make_repository.py PORT [engine]``: the engine in ``docker-ce`` is Debian's, taken from its package. The others only
have their names.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path("/srv/packages")
REPOSITORY = ROOT / "linux/debian"
SUITE = REPOSITORY / "dists/bookworm"
POOL = REPOSITORY / "pool"
WORK = Path("/srv/work")
TOOLS = ("gnupg",)
NAMES_ONLY = ("docker-ce-cli", "containerd.io", "docker-buildx-plugin")


def run(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, check=True).stdout


def main(port: str, *engine: str) -> None:
    run("apt-get", "-qq", "update")
    run("apt-get", "-qq", "install", "--yes", "--no-install-recommends", *TOOLS)
    for folder in (POOL, WORK, SUITE / "stable/binary-amd64"):
        folder.mkdir(parents=True)
    if engine:
        build_engine()
    for name in NAMES_ONLY:
        build_named(name)
    write_lists()
    sign()
    serve(port)


def build_engine() -> None:
    run("apt-get", "-qq", "download", "docker.io", cwd=WORK)
    [package] = WORK.glob("docker.io_*.deb")
    tree = WORK / "docker-ce"
    run("dpkg-deb", "--raw-extract", str(package), str(tree))
    control = tree / "DEBIAN/control"
    text = control.read_text(encoding="utf-8").replace("Package: docker.io\n", "Package: docker-ce\n")
    control.write_text(re.sub(r"(?m)^Conflicts: .*", "Conflicts: docker.io", text), encoding="utf-8")
    pack(tree)


def build_named(name: str) -> None:
    tree = WORK / name
    (tree / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: 1.0\nArchitecture: amd64\nMaintainer: Tests <t@example>\nDescription: none\n"
    (tree / "DEBIAN/control").write_text(control, encoding="utf-8")
    pack(tree)


def pack(tree: Path) -> None:
    # Uncompressed: it travels over loopback only.
    run("dpkg-deb", "-Znone", "--root-owner-group", "--build", str(tree), str(POOL / f"{tree.name}.deb"))
    shutil.rmtree(tree)


def write_lists() -> None:
    entries = []
    for package in sorted(POOL.glob("*.deb")):
        content = package.read_bytes()
        control = run("dpkg-deb", "--field", str(package)).strip()
        digest = hashlib.sha256(content).hexdigest()
        entries.append(f"{control}\nFilename: pool/{package.name}\nSize: {len(content)}\nSHA256: {digest}\n")
    packages = "\n".join(entries).encode()
    (SUITE / "stable/binary-amd64/Packages").write_bytes(packages)
    digest = hashlib.sha256(packages).hexdigest()
    release = (
        "Origin: Tests\nSuite: bookworm\nCodename: bookworm\nArchitectures: amd64\nComponents: stable\n"
        f"Date: {run('date', '-Ru').strip()}\nSHA256:\n {digest} {len(packages)} stable/binary-amd64/Packages\n"
    )
    (SUITE / "Release").write_text(release, encoding="utf-8")


def sign() -> None:
    keys = WORK / "keys"
    keys.mkdir(mode=0o700)
    gpg = ["gpg", "--batch", f"--homedir={keys}"]
    batch = [*gpg, "--quiet", "--pinentry-mode=loopback", "--passphrase="]
    run(*batch, "--quick-generate-key", "Tests <t@example>", "ed25519", "sign", "1d")
    run(*batch, "--clearsign", f"--output={SUITE / 'InRelease'}", str(SUITE / "Release"))
    run(*gpg, "--armor", f"--output={REPOSITORY / 'gpg'}", "--export")


def serve(port: str) -> None:
    command = [sys.executable, "-m", "http.server", port, "--bind", "127.0.0.1", "--directory", str(ROOT)]
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    Path("/srv/packages.pid").write_text(str(server.pid), encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
