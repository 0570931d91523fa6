// A server of the official SDK of TypeScript, as its example of a protected one: RFC 9728 metadata, a challenge, and
// tokens that the authorization server's keys verify. Its tool tells who called.
//
//   node server.mjs PORT ISSUER JWKS SCOPE      prints a line of JSON when it listens
import { createMcpExpressApp, getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter, requireBearerAuth } from "@modelcontextprotocol/express";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer, OAuthError, OAuthErrorCode } from "@modelcontextprotocol/server";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { z } from "zod";

const [port, issuer, jwks, scope] = process.argv.slice(2);
const url = new URL(`http://127.0.0.1:${port}/mcp`);
const keys = createRemoteJWKSet(new URL(jwks));
const verifier = {
  async verifyAccessToken(token) {
    let claims;
    try {
      ({ payload: claims } = await jwtVerify(token, keys, { issuer, audience: url.href }));
    } catch (error) {
      throw new OAuthError(OAuthErrorCode.InvalidToken, error.code ?? "invalid");
    }
    return {
      token,
      clientId: claims.client_id ?? claims.azp,
      scopes: (claims.scope ?? "").split(" "),
      expiresAt: claims.exp,
      resource: url,
      extra: { subject: claims.sub },
    };
  },
};
const factory = () => {
  const server = new McpServer({ name: "protected", version: "1" });
  const description = "Tell who calls.";
  server.registerTool("whoami", { description, inputSchema: z.object({}), annotations: { readOnlyHint: true } }, async (_, ctx) => ({
    content: [{ type: "text", text: ctx.http?.authInfo?.extra?.subject ?? "nobody" }],
  }));
  return server;
};
const handler = toNodeHandler(createMcpHandler(factory));
const app = createMcpExpressApp();
const oauthMetadata = { issuer, authorization_endpoint: `${issuer}/auth`, token_endpoint: `${issuer}/token`, response_types_supported: ["code"] };
app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: url, scopesSupported: [scope] }));
const required = { verifier, requiredScopes: scope ? [scope] : [], resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(url) };
app.all("/mcp", requireBearerAuth(required), (req, res) => handler(req, res, req.body));
app.listen(Number(port), "127.0.0.1", () => process.stdout.write('{"event": "listening"}\n'));
