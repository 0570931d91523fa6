// A server whose JSON is read without regard to case, as Go's encoding/json reads it.
//
//	/sdk    the official SDK before its mend of CVE-2026-27896 (MCP up to 2025-11-25)
//	/plain  a handler of a few lines, as people write them (MCP 2026-07-28, tools alone)
//	/ran    what has been run since the last GET, as JSON
//
// It says its port on the first line of its standard output, and ends with its standard input.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type arguments struct {
	Limit int    `json:"limit,omitempty"`
	Path  string `json:"path,omitempty"`
	Deep  struct {
		Limit int `json:"limit,omitempty"`
	} `json:"deep,omitempty"`
}

type run struct {
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

type history struct {
	lock sync.Mutex
	ran  []run
}

func (h *history) note(name string, given arguments) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.ran = append(h.ran, run{name, given})
}

func (h *history) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h.lock.Lock()
	defer h.lock.Unlock()
	json.NewEncoder(w).Encode(append([]run{}, h.ran...))
	h.ran = nil
}

func official(ran *history) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, request *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			ran.note("complete "+request.Params.Ref.Name+request.Params.Ref.URI, arguments{})
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
		},
	})
	open := json.RawMessage(`{"type":"object"}`)
	for _, name := range []string{"get_stock", "delete_all"} {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: open},
			func(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var given arguments
				json.Unmarshal(request.Params.Arguments, &given)
				ran.note(request.Params.Name, given)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: request.Params.Name}}}, nil
			})
		server.AddPrompt(&mcp.Prompt{Name: name},
			func(_ context.Context, request *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				ran.note("prompt "+request.Params.Name, arguments{})
				return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
			})
		server.AddResource(&mcp.Resource{Name: name, URI: "shop://" + name},
			func(_ context.Context, request *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				ran.note("read "+request.Params.URI, arguments{})
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}}, nil
			})
	}
	return mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true},
	)
}

func plain(ran *history) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var message struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string    `json:"name"`
				Arguments arguments `json:"arguments"`
			} `json:"params"`
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &message); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ran.note(message.Params.Name, message.Params.Arguments)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, message.ID)
	}
}

func main() {
	ran := &history{}
	http.Handle("/sdk", official(ran))
	http.Handle("/plain", plain(ran))
	http.Handle("/ran", ran)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go http.Serve(listener, nil)
	io.Copy(io.Discard, os.Stdin)
}
