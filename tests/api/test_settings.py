"""Settings: file under environment under command line, every mistake in one sentence."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from argus.api.notify.settings import load_notify
from argus.api.settings import Settings, SettingsError, settings_table
from argus.api.settings_sources import load_settings
from tests.test_docs import ROOT, constants


def test_the_command_line_beats_the_environment_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "argus.toml"
    file.write_text('[serve]\nport = 1\ngrace_s = 3\ndb = "x"\n')
    settings, warnings = load_settings(
        env={"ARGUS_PORT": "2", "ARGUS_DB": "y"}, path=file, overrides={"db": "z"}
    )
    assert (settings.port, settings.grace_s, settings.db, warnings) == (2, 3.0, "z", ())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[serve]\nprot = 1\n", "'prot'"),
        ("[serve]\nport = true\n", "port"),
        ('[serve]\nport = "1"\n', "port"),
        ("[serve]\nport = 70000\n", "port"),
        ("[serve]\ngrace_s = nan\n", "grace_s"),
        ("[serve]\ngrace_s = -1\n", "grace_s"),
        ("[serve]\nmax_uploads = 0\n", "max_uploads"),
        ('[serve]\nkey = "secret"\n', "key is a secret.*set ARGUS_KEY"),
        ("port = 1\n", "port"),
        ("serve = 3\n", "serve"),
        ("[serve\n", "argus.toml"),
        ("[serve]\ngrace_s = 1e300\n", "grace_s must be at least 0.* and below"),
        (f"[serve]\nport = {'1' * 5_000}\n", "argus.toml"),
        (f"[serve]\nhost = {'[' * 20_000}\n", "argus.toml"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "argus.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=named):
        load_settings(env={}, path=file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="none.toml"):
        load_settings(env={}, path=tmp_path / "none.toml")


def test_a_wrong_value_in_the_environment_is_named() -> None:
    with pytest.raises(SettingsError, match="ARGUS_PORT must be a whole number"):
        load_settings(env={"ARGUS_PORT": "eighty"})


def test_an_unknown_variable_is_one_warning() -> None:
    _, warnings = load_settings(env={"ARGUS_PROT": "1", "ARGUS_RUN": "job", "PATH": "/bin"})
    assert len(warnings) == 1 and "ARGUS_PROT" in warnings[0]


def test_no_variable_of_the_jobs_side_is_a_warning() -> None:
    """The commands run in jobs, too, where Argus itself has set some."""
    used = constants("collectors", like=r"ARGUS_[A-Z][A-Z_]*[A-Z]")
    assert load_settings(env=dict.fromkeys(used - {"ARGUS_KEY"}, "1"))[1] == () and used


def test_the_file_that_the_page_shows_is_taken(tmp_path: Path) -> None:
    (shown,) = re.findall(
        r"^```toml\n(.*?)^```",
        (ROOT / "docs" / "settings.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    file = tmp_path / "argus.toml"
    file.write_text(shown)
    settings, _ = load_settings(env={}, path=file)
    assert settings.window_steps > 0
    load_notify(env={}, path=file)


def test_secrets_come_from_the_environment_and_stay_out_of_sight() -> None:
    settings, _ = load_settings(env={"ARGUS_KEY": "s3cret"})
    assert settings.key == "s3cret" and "s3cret" not in repr(settings)


def test_every_setting_is_in_the_table_with_a_meaning() -> None:
    table = settings_table()
    assert [name for name, _, _, _ in table] == [item.name for item in fields(Settings)]
    assert all(env.startswith("ARGUS_") and len(meaning) > 15 for _, env, _, meaning in table)
    assert len({env for _, env, _, _ in table}) == len(table)


def test_a_key_comes_without_the_line_end_of_its_file() -> None:
    settings, _ = load_settings(env={"ARGUS_KEY": "s3cret\n", "ARGUS_MODEL_KEY": "s3cret\r\n"})
    assert (settings.key, settings.model_key) == ("s3cret", "s3cret")
