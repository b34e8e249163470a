package controld

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// benchClients is how many keep-alive clients submit at once.
const benchClients = 64

// BenchmarkSubmit measures submissions of one job each, with distinct keys and fsync on. Compare it
// with BenchmarkEmptyHandler.
func BenchmarkSubmit(b *testing.B) {
	for _, controllers := range []int{1, 3} {
		b.Run(fmt.Sprintf("controllers=%d", controllers), func(b *testing.B) {
			s := benchCluster(b, controllers)
			post(b, "http://"+s.addrs.Loopback+"/v1/jobs")
		})
	}
}

// BenchmarkEmptyHandler is the limit of the HTTP library: the same requests to a handler that reads
// the body and answers.
func BenchmarkEmptyHandler(b *testing.B) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"ids":[1]}`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	post(b, s.URL+"/v1/jobs")
}

func benchCluster(b *testing.B, n int) *running {
	if n == 1 {
		s := start(b, controller(b, "c1"))
		s.ready()
		return s
	}
	leader, _ := leaderOf(b, startThree(b, nil))
	leader.ready()
	return leader
}

// post sends b.N submissions from all clients together.
func post(b *testing.B, url string) {
	body, err := json.Marshal(job("bench"))
	if err != nil {
		b.Fatal(err)
	}
	tr := &http.Transport{MaxIdleConnsPerHost: benchClients}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	run := api.NewKey()
	var n atomic.Int64
	b.SetParallelism(benchClients / 2) // times GOMAXPROCS
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set(api.HeaderIdempotencyKey, fmt.Sprintf("%s-%d", run, n.Add(1)))
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			text, _ := io.ReadAll(resp.Body) // an error shows in the status
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				b.Errorf("%s: %s", resp.Status, text)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkSubmitThousand measures submissions of 1,000 jobs each.
func BenchmarkSubmitThousand(b *testing.B) {
	for _, controllers := range []int{1, 3} {
		b.Run(fmt.Sprintf("controllers=%d", controllers), func(b *testing.B) {
			c := benchCluster(b, controllers).client(user(1000))
			jobs := make([]*jobspec.Job, 1000)
			for i := range jobs {
				jobs[i] = job(fmt.Sprint("bench", i))
			}
			b.ResetTimer()
			for range b.N {
				if _, err := c.SubmitAll(b.Context(), api.NewKey(), jobs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
