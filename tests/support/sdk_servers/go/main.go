// A server over stdio whose tools answer with long results of the shapes that the official SDK of Go makes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type none struct{}

type row struct {
	ID   int    `json:"id"`
	Part string `json:"part"`
}

type table struct {
	Rows []row `json:"rows"`
}

type wrapped struct {
	Output string `json:"output"`
}

func parts() ([]string, []row) {
	lines, rows := []string{}, []row{}
	for number := 1; number <= 3000; number++ {
		part := "mast"
		if number == 2000 {
			part = "keel"
		}
		lines = append(lines, fmt.Sprintf("line %d: the %s is of oak", number, part))
		rows = append(rows, row{number, part})
	}
	return lines, rows
}

func give(server *mcp.Server, name string, blocks ...mcp.Content) {
	mcp.AddTool(server, &mcp.Tool{Name: name, Description: name},
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: blocks}, nil, nil
		})
}

func typed[Out any](server *mcp.Server, name string, out Out, blocks ...mcp.Content) {
	mcp.AddTool(server, &mcp.Tool{Name: name, Description: name},
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, Out, error) {
			if len(blocks) == 0 {
				return nil, out, nil
			}
			return &mcp.CallToolResult{Content: blocks}, out, nil
		})
}

func main() {
	lines, rows := parts()
	text := strings.Join(lines, "\n")
	minified, err := json.Marshal(table{rows})
	if err != nil {
		log.Fatal(err)
	}
	said := func(text string) mcp.Content { return &mcp.TextContent{Text: text} }
	server := mcp.NewServer(&mcp.Implementation{Name: "shapes", Version: "1"}, nil)
	give(server, "text", said(text))
	give(server, "json_text", said(string(minified)))
	typed(server, "object", table{rows})
	typed(server, "wrapped", wrapped{text}, said(text))
	give(server, "minified", said(strings.Join(lines, ";")))
	give(server, "several", said(strings.Join(lines[:1500], "\n")), said(strings.Join(lines[1500:], "\n")))
	give(server, "embedded", &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///log", Text: text}})
	give(server, "mixed", said(text), &mcp.ImageContent{Data: []byte("\x89PNG\r\n\x1a\n"), MIMEType: "image/png"})
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
