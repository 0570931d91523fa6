// Calls a tool once for each result of a corpus and prints those that the SDK refused.
//
// usage: reader URL TOOL CORPUS
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx := context.Background()
	text, err := os.ReadFile(os.Args[3])
	if err != nil {
		panic(err)
	}
	var corpus []json.RawMessage
	if err := json.Unmarshal(text, &corpus); err != nil {
		panic(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "reader", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Args[1]}, nil)
	if err != nil {
		panic(err)
	}
	defer session.Close()
	refused := [][]any{}
	for index, result := range corpus {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: os.Args[2], Arguments: map[string]any{"result": result}})
		if err != nil {
			refused = append(refused, []any{index, err.Error()})
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(refused); err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, session.InitializeResult().ProtocolVersion)
}
