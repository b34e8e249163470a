package exchange

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
)

// TestProcessorTimeRefills: a user that has taken more than its part waits for as long as the part
// takes to come, and one that has saved some may take it at once, but no more than that.
func TestProcessorTimeRefills(t *testing.T) {
	var p processorTime
	now := time.Unix(1_000_000, 0)
	const percent = 50 // 5 s at once
	if w := p.wait(1, percent, now); w != 0 {
		t.Errorf("a user that has asked nothing waits %v", w)
	}
	for _, step := range []struct {
		later, took, wait time.Duration
	}{
		{0, 5 * time.Second, 0},                            // all that it had saved
		{0, time.Millisecond, 2 * time.Millisecond},        // 1 ms of half a core takes 2 ms
		{time.Second, 0, 0},                                // half a second has come
		{0, 509 * time.Millisecond, 20 * time.Millisecond}, // 499 ms were left
		{time.Hour, 6 * time.Second, 2 * time.Second},
	} {
		now = now.Add(step.later)
		p.spend(1, step.took, percent, now)
		if w := p.wait(1, percent, now); w != step.wait {
			t.Errorf("after %+v the user waits %v", step, w)
		}
	}
	if w := p.wait(2, percent, now); w != 0 {
		t.Errorf("another user waits %v", w)
	}
}

// TestAMeterCountsWorkAlone: processor time is what a request computes, not the time for which it
// waits for others.
func TestAMeterCountsWorkAlone(t *testing.T) {
	s := &Service{}
	x := &Exchange{s: s, meter: meter{on: true}}
	x.meter.start()
	work := func() {
		for begin := threadTime(); threadTime()-begin < 30*time.Millisecond; {
		}
	}
	work()
	x.Idle(func() {
		done := make(chan struct{})
		go func() { defer close(done); work() }()
		<-done
	})
	x.Idle(work) // as one that waits for a client, on this thread
	x.meter.stop()
	if x.meter.sum < 30*time.Millisecond || x.meter.sum > 55*time.Millisecond {
		t.Errorf("30 ms of work, and 30 ms of another goroutine, count %v", x.meter.sum)
	}
	for what, machine := range map[string]bool{"a user": false, "a member of the cluster": true} {
		y := &Exchange{s: s, Route: &Route{}, Caller: &identity.Caller{Machine: machine, User: model.Identity{UID: 9}}}
		y.Route.Out = reflect.TypeFor[int]()
		if machine == y.counts() {
			t.Errorf("%s: counted %t", what, y.counts())
		}
	}
}

// TestMetricsOfRequests count by route and code.
func TestMetricsOfRequests(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newRequestMetrics(registry)
	m.served("GET /v1/x", nil, 300*time.Millisecond)
	m.served("GET /v1/x", errBusy, 500*time.Millisecond)
	m.served("GET /v1/x", nil, 200*time.Millisecond)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics",
		nil))
	for _, want := range []string{`rota_http_requests_total{code="ok",route="GET /v1/x"} 2`,
		`rota_http_requests_total{code="busy",route="GET /v1/x"} 1`, `rota_http_request_seconds_count{route="GET /v1/x"} 3`,
		`rota_http_request_seconds_sum{route="GET /v1/x"} 1`} {
		if text := w.Body.String(); !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
