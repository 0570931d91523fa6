"""Guards, each with the attack that it stops: the code to remove from a module, and the test that then has to fail.
`hack/attacks` removes one at a time and runs the test; `tests/contract/test_threats.py` checks that every guard still
matches the code. A guard is replaced as text while its module is loaded: nothing on disk changes.
"""

from __future__ import annotations

from guards_of_accounts import ACCOUNTS
from guards_of_apis import APIS
from guards_of_assertions import ASSERTIONS
from guards_of_authorization import AUTHORIZATION
from guards_of_client_documents import CLIENT_DOCUMENTS
from guards_of_clients import DOORS, FRAMING, IDENTITY, SMUGGLING, TOKENS
from guards_of_consents import CONSENTS
from guards_of_crossings import CROSSINGS
from guards_of_documents import DOCUMENTS
from guards_of_egress import EGRESS
from guards_of_grants import GRANTS
from guards_of_ids import IDS
from guards_of_issuers import ISSUERS
from guards_of_keys import KEYS
from guards_of_lists import LISTS
from guards_of_operators import OPERATORS
from guards_of_own_tokens import OWN_TOKENS
from guards_of_pages import PAGES
from guards_of_results import RESULTS
from guards_of_servers import BOMBS, EXTENSIONS, POLICIES, READERS, TENANCY
from guards_of_shares import SHARES
from guards_of_sign_in import SIGN_IN
from guards_of_speech import SPEECH
from guards_of_upgrades import UPGRADES
from product_guard import Guard

GUARDS: tuple[Guard, ...] = (
    *TOKENS,
    *IDENTITY,
    *DOORS,
    *FRAMING,
    *SMUGGLING,
    *RESULTS,
    *IDS,
    *POLICIES,
    *EGRESS,
    *CLIENT_DOCUMENTS,
    *TENANCY,
    *LISTS,
    *BOMBS,
    *READERS,
    *EXTENSIONS,
    *PAGES,
    *SIGN_IN,
    *OPERATORS,
    *SPEECH,
    *UPGRADES,
    *SHARES,
    *CROSSINGS,
    *GRANTS,
    *CONSENTS,
    *ISSUERS,
    *ACCOUNTS,
    *DOCUMENTS,
    *APIS,
    *KEYS,
    *AUTHORIZATION,
    *ASSERTIONS,
    *OWN_TOKENS,
)
