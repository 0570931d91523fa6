"""Signs requests to AWS (Signature Version 4) with the credentials of this process.

Signatures are made by the AWS Common Runtime, `awscrt` (extra `bedrock`), which has no dependencies; botocore cannot be
installed beside the Kubernetes client. `awscrt` is loaded with the first request. It finds credentials as AWS's SDKs
do: in environment variables, in the profile, in the token of a web identity (IRSA on EKS), at the endpoint of a
container (EKS Pod Identity, ECS), and at the metadata endpoint of an EC2 instance. It renews credentials before they
expire.
"""

from __future__ import annotations

import asyncio
import io
from typing import Any, Final

import msgspec
from yarl import URL

from fairlead_api.extras import install_command

_NO_CREDENTIALS: Final = (
    "no AWS credentials were found to sign the request: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "AWS_PROFILE, or give this process a role"
)


class SigningFailed(Exception):
    """A request cannot be signed. The message has the reason, without parts of credentials."""


class SigningScope(msgspec.Struct, frozen=True):
    """AWS region and AWS service for which a signature is valid."""

    region: str
    service: str


class RequestSigner:
    """Signs requests to AWS. Looks for credentials when the first request is signed."""

    def __init__(self) -> None:
        self._credentials: Any = None

    async def sign(self, scope: SigningScope, method: str, url: str, body: bytes) -> dict[str, str]:
        """Headers that sign a request, by lower-case names. `url` has to be sent unchanged. Raises SigningFailed."""
        try:
            from awscrt import auth, exceptions, http
        except ImportError as error:
            raise SigningFailed(
                "requests to Amazon Bedrock are signed by awscrt, which is not installed: "
                f"{install_command('bedrock')}, or name a Bedrock API key in keyEnv or keyFile"
            ) from error
        if self._credentials is None:
            self._credentials = auth.AwsCredentialsProvider.new_default_chain()
        address = URL(url, encoded=True)
        request = http.HttpRequest(
            method,
            address.raw_path_qs,
            http.HttpHeaders([("host", address.host_port_subcomponent or "")]),
            io.BytesIO(body),
        )
        config = auth.AwsSigningConfig(
            credentials_provider=self._credentials, region=scope.region, service=scope.service
        )
        try:
            signed_request = await asyncio.wrap_future(auth.aws_sign_request(request, config))
        except exceptions.AwsCrtError as error:
            raise SigningFailed(_NO_CREDENTIALS) from error
        return {name.lower(): value for name, value in signed_request.headers if name.lower() != "host"}
