package controld

import (
	"context"
	"fmt"
	"net/http"
)

// status says in one line what this controller does.
func (d *daemon) status() string {
	if leader, ok := d.replica.Leader(); ok && !d.replica.IsLeader() {
		return "follows " + leader.Name
	}
	if !d.replica.Leading() {
		return "there is no leader"
	}
	if nodes := len(d.replica.View().Nodes()); nodes != 1 {
		return fmt.Sprintf("leads %d nodes", nodes)
	}
	return "leads 1 node"
}

// answers returns nil once a handler of the API has answered a question that needs no leader.
func answers(ctx context.Context, api http.Handler) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/healthz", http.NoBody)
	if err != nil {
		return fmt.Errorf("call this controller's own API: %w", err)
	}
	answer := statusOnly{header: http.Header{}, code: http.StatusOK}
	done := make(chan struct{})
	go func() {
		defer close(done)
		api.ServeHTTP(&answer, request)
	}()
	select {
	case <-ctx.Done():
		return fmt.Errorf("the API does not answer: %w", context.Cause(ctx))
	case <-done:
	}
	if answer.code != http.StatusOK {
		return fmt.Errorf("the API answers %s with status %d", request.URL.Path, answer.code)
	}
	return nil
}

// statusOnly is an answer of which only the status is kept.
type statusOnly struct {
	header http.Header
	code   int
}

// Header implements http.ResponseWriter.
func (s *statusOnly) Header() http.Header { return s.header }

// Write implements http.ResponseWriter.
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (s *statusOnly) WriteHeader(code int) { s.code = code }
