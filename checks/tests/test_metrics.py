"""How scripts/metrics-check finds metrics that files use and a daemon does not have."""

from pathlib import Path

import pytest

from checks.monitoring import metrics

SCRAPE = """# HELP kvtier_blocks Blocks.
kvtier_blocks{tier="host"} 3
kvtier_blocks{tier="ssd"} 4
kvtier_sessions 1
"""


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('sum(kvtier_blocks{tier="ssd"}) / kvtier_sessions', ""),
        ('"expr": "kvtier_blocks{tier=\\"ssd\\", job=\\"kvtier\\", instance=\\"$instance\\"}"', ""),
        ("kvtier_blocks + kvtier_nodes", "kvtier_nodes"),
        ('kvtier_blocks{tier="object"}', 'kvtier_blocks{tier="object"}'),
    ],
)
def test_names_thatTheScrapeLacks_areTold(text: str, missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.yml").write_text(text)
    assert metrics.names(SCRAPE, [tmp_path / "rules.yml"]) == int(bool(missing))
    said = capsys.readouterr().out
    assert (f"not in the scrape: {missing}\n" if missing else "all in the scrape\n") in said
