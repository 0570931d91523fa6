import io.modelcontextprotocol.json.McpJsonDefaults;
import io.modelcontextprotocol.json.McpJsonMapper;
import io.modelcontextprotocol.server.McpServer;
import io.modelcontextprotocol.server.transport.StdioServerTransportProvider;
import io.modelcontextprotocol.spec.McpSchema;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A server over stdio whose tools answer with long results of the shapes that the official SDK of Java makes. */
public final class Shapes {
  private static final Map<String, Object> NOTHING = Map.of("type", "object");

  public static void main(String[] arguments) throws Exception {
    List<String> lines = new ArrayList<>();
    List<Map<String, Object>> rows = new ArrayList<>();
    for (int number = 1; number <= 3000; number++) {
      String part = number == 2000 ? "keel" : "mast";
      lines.add("line " + number + ": the " + part + " is of oak");
      rows.add(Map.of("id", number, "part", part));
    }
    String text = String.join("\n", lines);
    McpJsonMapper mapper = McpJsonDefaults.getMapper();
    String minified = mapper.writeValueAsString(Map.of("rows", rows));
    McpServer.SyncSpecification<?> server =
        McpServer.sync(new StdioServerTransportProvider(mapper))
            .serverInfo("shapes", "1")
            .capabilities(McpSchema.ServerCapabilities.builder().tools(false).build());
    give(server, "text", result().addTextContent(text));
    give(server, "json_text", result().addTextContent(minified));
    give(server, "object", result().structuredContent(Map.of("rows", rows)).addTextContent(minified));
    give(server, "wrapped", result().structuredContent(Map.of("output", text)).addTextContent(text));
    give(server, "minified", result().addTextContent(String.join(";", lines)));
    give(
        server,
        "several",
        result()
            .addTextContent(String.join("\n", lines.subList(0, 1500)))
            .addTextContent(String.join("\n", lines.subList(1500, 3000))));
    McpSchema.ResourceContents log = new McpSchema.TextResourceContents("file:///log", "text/plain", text);
    give(server, "embedded", result().addContent(new McpSchema.EmbeddedResource(null, log)));
    McpSchema.Content image = new McpSchema.ImageContent(null, "iVBORw0KGgo=", "image/png");
    give(server, "mixed", result().addTextContent(text).addContent(image));
    server.build();
  }

  private static McpSchema.CallToolResult.Builder result() {
    return new McpSchema.CallToolResult.Builder();
  }

  private static void give(McpServer.SyncSpecification<?> server, String name, McpSchema.CallToolResult.Builder made) {
    McpSchema.Tool tool = McpSchema.Tool.builder(name, NOTHING).description(name).build();
    McpSchema.CallToolResult result = made.build();
    server.toolCall(tool, (exchange, request) -> result);
  }
}
