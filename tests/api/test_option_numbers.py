"""Numbers and pairs of options the service would refuse are refused before it is asked, by the option's name."""

from __future__ import annotations

import pytest

from argus.api.cli import capture, main, stacks
from argus.api.http import capturing, wiring


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("capture --run r --rank -1", "argument --rank: must be a whole number from 0 to "),
        (
            "capture --run r --rank 0 --last 0",
            "argument --last: must be a whole number from 1 to 100, got '0'",
        ),
        (
            "capture --run r --rank 0 --last x",
            "argument --last: must be a whole number from 1 to 100, got 'x'",
        ),
        ("stacks --run r --limit -1", "argument --limit: must be a whole number from 1 to 1000, got '-1'"),
        ("stacks --run r --rank -1", "argument --rank: must be a whole number from 0 to "),
        ("stacks --run r --burst 0", "argument --burst: must be seconds above 0, at most 60, got '0'"),
        ("stacks --run r --burst nan", "argument --burst: must be seconds above 0, at most 60, got 'nan'"),
        ("capture --run r --rank 0 --timeout-s nan", "argument --timeout-s: must be seconds above 0"),
        (
            "triage x --window-steps x",
            "argument --window-steps: must be a whole number from 1 to 100000, got",
        ),
        ("replay x --speed x", "argument --speed: must be above 0 and at most 1e6, got 'x'"),
        ("replay x --speed nan", "argument --speed: must be above 0 and at most 1e6, got 'nan'"),
        ("probe --hosts h --seconds nan", "argument --seconds: must be seconds above 0"),
        ("probe --hosts h --rounds 0", "argument --rounds: must be a whole number from 1"),
        ("probe --hosts h --port 99999", "argument --port: must be a whole number from 1 to 65535"),
        (
            "processor --ring-bytes x",
            "argument --ring-bytes: must be a whole number from 0 to 9223372036854775807",
        ),
        ("processor --window-steps 0", "argument --window-steps: must be a whole number from 1 to 100000"),
        ("processor --overhead-budget x", "argument --overhead-budget: a share lies above 0"),
        ("topology show --run r --attempt -1", "argument --attempt: must be a whole number from 0 to "),
    ],
)
def test_a_number_out_of_range_is_told_with_its_option(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_native_frames_without_a_burst_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stacks", "--run", "r", "--native"]) == 2
    assert "add --burst S" in capsys.readouterr().err


def test_the_limits_are_the_services() -> None:
    assert capture.MAX_WINDOWS == capturing.MAX_WINDOWS and stacks.MAX_COMPARED == wiring.MAX_PAGE
    [limit] = [part.le for part in capturing.Burst.model_fields["seconds"].metadata if hasattr(part, "le")]
    assert limit == stacks.MAX_BURST_S
