"""Metrics about the credentials that clients sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead_app.authentication import build_trust
from fairlead_app.metrics.exposition import expose_metrics
from fairlead_app.settings import Settings
from gatewayworld import Wire, modern, running
from issuers import issuing

HERE = "https://tools.example.com"


async def test_credentials_are_counted_by_kind_and_outcome(tmp_path: Path) -> None:
    async with issuing() as issuer:
        file = tmp_path / "identity.yaml"
        file.write_text(json.dumps({"issuers": [{"issuer": issuer.url}]}))
        settings: dict[str, Any] = {"identity": file, "public_url": HERE}
        async with running(tmp_path, **settings, trust=build_trust(Settings.of(**settings))) as gateway:
            good = issuer.token(aud=HERE)
            for token in (good, good, issuer.token(aud="https://elsewhere"), "nonsense"):
                async with await Wire.connect(gateway) as wire:
                    await wire.ask(modern("tools/list").with_headers(authorization=f"Bearer {token}"))
            page = (await expose_metrics(gateway.metrics))[0].decode()
    lines = sorted(line for line in page.splitlines() if line.startswith("fairlead_authentications_total"))
    assert lines == [
        'fairlead_authentications_total{kind="jwt",outcome="accepted"} 1.0',
        'fairlead_authentications_total{kind="jwt",outcome="refused"} 1.0',
        'fairlead_authentications_total{kind="none",outcome="refused"} 1.0',
    ], "what is known is not looked at again"
