package api

import (
	"encoding/json"
	"net/http"
)

// WriteProblem answers a request with a [Problem] of the given HTTP status, code and detail.
func WriteProblem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	p := Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}
