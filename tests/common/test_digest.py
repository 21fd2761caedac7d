"""Digests of files and code: they change with the bytes and with nothing else."""

import hashlib

import pytest

from mac_policy.common.digest import code_sha256, file_digest, file_sha256, modules_sha256


def test_a_files_digest_is_that_of_its_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (3 << 20))
    assert file_sha256(path) == hashlib.sha256(b"x" * (3 << 20)).hexdigest()
    assert file_digest(path, "md5") == hashlib.md5(b"x" * (3 << 20)).hexdigest()


def test_the_digest_of_code_does_not_depend_on_the_order_of_the_files(tmp_path):
    files = [tmp_path / name for name in ("a.py", "b.py")]
    for file in files:
        file.write_text(file.name)
    digest = code_sha256(files)
    assert digest == code_sha256(files[::-1])
    files[0].write_text("other")
    assert digest != code_sha256(files)


def test_the_digest_of_a_package_is_that_of_all_its_modules_and_executes_none(tmp_path, monkeypatch):
    package = tmp_path / "a_lab"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "robot.py").write_text("raise RuntimeError('executed')")
    (package / "inner" / "hand.py").write_text("fingers = 2")
    monkeypatch.syspath_prepend(tmp_path)
    modules_sha256.cache_clear()
    assert modules_sha256("a_lab") == code_sha256(package.rglob("*.py"))
    assert modules_sha256("a_lab.robot") == code_sha256([package / "robot.py"])
    with pytest.raises(ValueError, match=r"no source of a module 'a_lab\.rebot'"):
        modules_sha256("a_lab.rebot")
