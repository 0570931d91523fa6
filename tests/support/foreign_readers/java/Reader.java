import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A server whose JSON is read without regard to case: Jackson with ACCEPT_CASE_INSENSITIVE_PROPERTIES.
 *
 * POST /plain is MCP 2026-07-28, tools alone; GET /ran says what has been run since the last one. It says its port on
 * the first line of its standard output, and ends with its standard input.
 */
public final class Reader {
    public static final class Deep {
        public int limit;
    }

    public static final class Arguments {
        public int limit;
        public String path = "";
        public Deep deep = new Deep();
    }

    public static final class Params {
        public String name;
        public Arguments arguments = new Arguments();
    }

    public static final class Message {
        public JsonNode id;
        public Params params;
    }

    private static final ObjectMapper JSON = JsonMapper.builder()
        .enable(MapperFeature.ACCEPT_CASE_INSENSITIVE_PROPERTIES)
        .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
        .build();
    private static final List<Map<String, Object>> RAN = new ArrayList<>();

    public static void main(String[] words) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/plain", Reader::call);
        server.createContext("/ran", Reader::ran);
        server.start();
        System.out.println(server.getAddress().getPort());
        System.in.transferTo(java.io.OutputStream.nullOutputStream());
        System.exit(0);
    }

    private static void call(HttpExchange exchange) throws IOException {
        Message message = JSON.readValue(exchange.getRequestBody(), Message.class);
        RAN.add(Map.of("name", message.params.name, "arguments", message.params.arguments));
        answer(exchange, Map.of(
            "jsonrpc", "2.0", "id", message.id, "result", Map.of("resultType", "complete", "content", List.of())));
    }

    private static void ran(HttpExchange exchange) throws IOException {
        answer(exchange, RAN);
        RAN.clear();
    }

    private static void answer(HttpExchange exchange, Object document) throws IOException {
        byte[] body = JSON.writeValueAsBytes(document);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(200, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }
}
