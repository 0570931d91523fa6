"""Client ID metadata documents and registrations of MCP clients in the field (September 2026)."""

from __future__ import annotations

from typing import Any, Final

CLAUDE: Final[dict[str, Any]] = {
    "client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata",
    "client_name": "Claude",
    "client_uri": "https://claude.ai",
    "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
    "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
CLAUDE_CODE: Final[dict[str, Any]] = {
    "client_id": "https://claude.ai/oauth/claude-code-client-metadata",
    "client_name": "Claude Code",
    "client_uri": "https://claude.ai",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
VSCODE: Final[dict[str, Any]] = {
    "client_id": "https://vscode.dev/oauth/client-metadata.json",
    "client_name": "Visual Studio Code",
    "client_uri": "https://vscode.dev/product",
    "logo_uri": "https://code.visualstudio.com/assets/branding/code-stable.png",
    "application_type": "native",
    "redirect_uris": ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"],
    "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
"""The document is served with `Cache-Control: no-store,no-cache,max-age=0`. VS Code uses another port if 33418 is in
use."""
CHATGPT: Final[dict[str, Any]] = {
    "client_id": "https://chatgpt.com/oauth/client.json",
    "client_name": "ChatGPT",
    "client_uri": "https://chatgpt.com/",
    "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "private_key_jwt",
    "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
    "token_endpoint_auth_signing_alg": "RS256",
    "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
}
ZED: Final[dict[str, Any]] = {
    "client_id": "https://zed.dev/oauth/client-metadata.json",
    "client_name": "Zed",
    "client_uri": "https://zed.dev",
    "redirect_uris": ["http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
GOOSE: Final[dict[str, Any]] = {
    "client_id": "https://goose-docs.ai/oauth/client-metadata.json",
    "client_name": "goose",
    "redirect_uris": ["http://127.0.0.1/oauth_callback", "http://[::1]/oauth_callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
    "code_challenge_methods_supported": ["S256"],
}
PUBLIC_DOCUMENTS: Final = (CLAUDE, CLAUDE_CODE, VSCODE, ZED, GOOSE)

VSCODE_REGISTRATION: Final[dict[str, Any]] = {
    "client_name": "Visual Studio Code",
    "client_uri": "https://code.visualstudio.com",
    "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    "response_types": ["code"],
    "redirect_uris": [
        "https://insiders.vscode.dev/redirect",
        "https://vscode.dev/redirect",
        "http://127.0.0.1/",
        "http://127.0.0.1:33418/",
    ],
    "scope": "openid",
    "token_endpoint_auth_method": "none",
    "application_type": "native",
}
CURSOR_REGISTRATION: Final[dict[str, Any]] = {
    "client_name": "Cursor",
    "redirect_uris": [
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "https://www.cursor.com/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
    ],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
CODEX_REGISTRATION: Final[dict[str, Any]] = {
    "client_name": "Codex",
    "redirect_uris": ["http://127.0.0.1:37819/callback/SzB5"],
    "grant_types": ["authorization_code", "refresh_token"],
    "token_endpoint_auth_method": "none",
    "response_types": ["code"],
    "application_type": "native",
}
GEMINI_REGISTRATION: Final[dict[str, Any]] = {
    "client_name": "Gemini CLI MCP Client",
    "redirect_uris": ["http://localhost:7777/oauth/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
    "scope": "",
}
INSPECTOR_REGISTRATION: Final[dict[str, Any]] = {
    "redirect_uris": ["http://localhost:6274/oauth/callback"],
    "token_endpoint_auth_method": "none",
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "client_name": "MCP Inspector",
    "client_uri": "https://github.com/modelcontextprotocol/inspector",
    "scope": "",
    "application_type": "native",
}
PYTHON_SDK_REGISTRATION: Final[dict[str, Any]] = {
    "redirect_uris": ["http://localhost:3030/callback"],
    "token_endpoint_auth_method": "client_secret_post",
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "client_name": "Simple Auth Client",
}
REGISTRATIONS: Final = (
    VSCODE_REGISTRATION,
    CURSOR_REGISTRATION,
    CODEX_REGISTRATION,
    GEMINI_REGISTRATION,
    INSPECTOR_REGISTRATION,
    PYTHON_SDK_REGISTRATION,
)
