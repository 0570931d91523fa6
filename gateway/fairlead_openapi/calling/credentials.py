"""Credential of a request, by the operation's security requirements. No I/O."""

from __future__ import annotations

from fairlead_api.documents.catalog import Credential, SentCredential
from fairlead_api.documents.operations import Operation


def credential_for(operation: Operation, credential: Credential) -> SentCredential:
    """Select the parts of a server's credential that the request of an operation sends.

    Headers, query parameters and cookies that belong to no scheme are always sent. For schemes, the first alternative
    is used whose schemes all have a credential, because the schemes of one alternative are needed together. A scheme
    whose credential is always sent, or is obtained per call, adds nothing here. If no alternative is complete, no
    alternative is sent, and the API's answer says what is missing. A scheme's header replaces another header of the
    same name.
    """
    headers, query, cookies = dict(credential.headers), dict(credential.query), dict(credential.cookies)
    for alternative in operation.security:
        if alternative and all(scheme in credential.schemes for scheme in alternative):
            for scheme in alternative:
                scheme_credential = credential.schemes[scheme]
                replaced_names = {name.lower() for name in scheme_credential.headers}
                headers = {name: value for name, value in headers.items() if name.lower() not in replaced_names}
                headers.update(scheme_credential.headers)
                query.update(scheme_credential.query)
                cookies.update(scheme_credential.cookies)
            break
    return SentCredential(headers=headers, query=query, cookies=cookies)
