// Reads an endpoint with the official SDK of Go:
//
//	reader list URL VERSION              prints names by list, or the error of a list
//	reader call URL VERSION TOOL CORPUS  calls a tool once for each result of a file, and prints the indices of those
//	                                     that were refused, with the errors
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "reader", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: os.Args[2]}
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: os.Args[3]})
	if err != nil {
		log.Fatal(err)
	}
	var answer any
	if os.Args[1] == "list" {
		answer = lists(ctx, session)
	} else {
		answer = refusals(ctx, session, os.Args[4], os.Args[5])
	}
	_ = json.NewEncoder(os.Stdout).Encode(answer)
}

func lists(ctx context.Context, session *mcp.ClientSession) map[string]any {
	found := map[string]any{}
	if all, err := session.ListTools(ctx, nil); err != nil {
		found["tools"] = err.Error()
	} else {
		found["tools"] = names(all.Tools, func(entry *mcp.Tool) string { return entry.Name })
	}
	if all, err := session.ListPrompts(ctx, nil); err != nil {
		found["prompts"] = err.Error()
	} else {
		found["prompts"] = names(all.Prompts, func(entry *mcp.Prompt) string { return entry.Name })
	}
	if all, err := session.ListResources(ctx, nil); err != nil {
		found["resources"] = err.Error()
	} else {
		found["resources"] = names(all.Resources, func(entry *mcp.Resource) string { return entry.Name })
	}
	if all, err := session.ListResourceTemplates(ctx, nil); err != nil {
		found["templates"] = err.Error()
	} else {
		found["templates"] = names(all.ResourceTemplates, func(entry *mcp.ResourceTemplate) string { return entry.Name })
	}
	return found
}

func refusals(ctx context.Context, session *mcp.ClientSession, tool string, file string) [][]any {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var corpus []json.RawMessage
	if err := json.Unmarshal(text, &corpus); err != nil {
		log.Fatal(err)
	}
	refused := [][]any{}
	for index, result := range corpus {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"result": result}})
		if err != nil {
			refused = append(refused, []any{index, err.Error()})
		}
	}
	return refused
}

func names[T any](entries []T, name func(T) string) []string {
	found := []string{}
	for _, entry := range entries {
		found = append(found, name(entry))
	}
	return found
}
