import io.modelcontextprotocol.client.McpClient;
import io.modelcontextprotocol.client.McpSyncClient;
import io.modelcontextprotocol.client.transport.HttpClientStreamableHttpTransport;
import io.modelcontextprotocol.json.McpJsonDefaults;
import java.net.URI;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** Lists everything of an endpoint: java Lister list URL. Prints names by list, or the error of a list. */
public final class Lister {
  public static void main(String[] arguments) throws Exception {
    URI url = URI.create(arguments[1]);
    HttpClientStreamableHttpTransport transport =
        HttpClientStreamableHttpTransport.builder(url.getScheme() + "://" + url.getAuthority())
            .endpoint(url.getPath())
            .build();
    McpSyncClient client = McpClient.sync(transport).requestTimeout(Duration.ofSeconds(30)).build();
    client.initialize();
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("tools", names(() -> client.listTools().tools().stream().map(entry -> entry.name()).toList()));
    found.put("prompts", names(() -> client.listPrompts().prompts().stream().map(entry -> entry.name()).toList()));
    found.put(
        "resources", names(() -> client.listResources().resources().stream().map(entry -> entry.name()).toList()));
    found.put(
        "templates",
        names(() -> client.listResourceTemplates().resourceTemplates().stream().map(entry -> entry.name()).toList()));
    System.out.println(McpJsonDefaults.getMapper().writeValueAsString(found));
    System.exit(0);
  }

  private static Object names(Supplier<List<String>> ask) {
    try {
      return ask.get();
    } catch (RuntimeException error) {
      return String.valueOf(error) + " " + error.getCause();
    }
  }
}
