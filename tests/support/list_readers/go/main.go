// Lists everything of an endpoint: lister URL VERSION. Prints an object of names by list, or the error of a list.
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
	client := mcp.NewClient(&mcp.Implementation{Name: "lister", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: os.Args[1]}
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: os.Args[2]})
	if err != nil {
		log.Fatal(err)
	}
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
	_ = json.NewEncoder(os.Stdout).Encode(found)
}

func names[T any](entries []T, name func(T) string) []string {
	found := []string{}
	for _, entry := range entries {
		found = append(found, name(entry))
	}
	return found
}
