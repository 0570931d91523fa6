module fairlead.dev/tests/readers

go 1.25

// before its mend of CVE-2026-27896: newer ones read names as they are
require github.com/modelcontextprotocol/go-sdk v1.3.0

require (
	github.com/google/jsonschema-go v0.4.2 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/oauth2 v0.30.0 // indirect
)
