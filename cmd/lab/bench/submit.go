package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// emptyServer is the argument that makes this program the empty handler, with which submissions are
// compared.
const emptyServer = "-serve-empty"

// serveEmpty reads and answers requests to the route of a submission, and does nothing else.
func serveEmpty(addr string) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"ids":[1]}`)
	})
	log.Fatal(http.ListenAndServe(addr, mux))
}

// clients is the number of clients that submit at once.
const clients = 64

// held returns a job that stays pending.
func held(dir string) *jobspec.Job {
	return &jobspec.Job{
		Name: "held", Hold: true, Workdir: dir,
		Groups: []jobspec.Group{{Name: "main", Tasks: []jobspec.Task{{
			Name: "true", Command: []string{"true"}, Resources: jobspec.Resources{Memory: 64 * jobspec.MiB},
		}}}},
	}
}

// measureSubmit compares the rate of submissions over HTTP with that of a handler that does
// nothing.
func measureSubmit(ctx context.Context, b *bench) error {
	peer := b.beside(ctx, b.slurmRate)
	for _, n := range []int{1, 3} {
		err := b.with(ctx, fmt.Sprintf("submit%d", n), n, 1,
			func(c *lab.Cluster) error { return b.submitRates(ctx, c, peer) })
		if err != nil {
			return err
		}
	}
	return nil
}

// served is the work of a server under load.
type served struct {
	span time.Duration
	used time.Duration // processor time of the server's processes
	lat  []time.Duration
}

// rate is requests per second.
func (s served) rate() float64 { return float64(len(s.lat)) / s.span.Seconds() }

// cost is the processor time for each request.
func (s served) cost() time.Duration { return s.used / time.Duration(max(len(s.lat), 1)) }

// and adds the work of the server at another time.
func (s served) and(o served) served {
	return served{s.span + o.span, s.used + o.used, append(s.lat, o.lat...)}
}

// loadServer loads a server that consists of processes.
func loadServer(ctx context.Context, at target, body []byte, d time.Duration, pids ...int) (served, error) {
	l := newLoad(at, body, clients)
	defer l.close()
	if err := l.connect(ctx); err != nil {
		return served{}, err
	}
	before, err := processorTime(pids)
	if err != nil {
		return served{}, err
	}
	span, lat, err := l.run(ctx, d)
	if err != nil {
		return served{}, err
	}
	after, err := processorTime(pids)
	return served{span, after - before, lat}, err
}

// processorTime is the processor time of processes, in user and kernel mode, to a hundredth of a
// second.
func processorTime(pids []int) (time.Duration, error) {
	const tick = time.Second / 100 // USER_HZ of every Linux that Rota runs on
	var sum time.Duration
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // from the state on, the third of all
		if len(fields) < 13 {
			return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
		}
		for _, f := range fields[11:13] {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// emptyHandler starts this program as the empty handler and returns its address and process. It
// ends with ctx.
func emptyHandler(ctx context.Context) (addr string, pid int, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", 0, err
	}
	addr = l.Addr().String()
	l.Close()
	self, err := os.Executable()
	if err != nil {
		return "", 0, err
	}
	cmd := exec.CommandContext(ctx, self, emptyServer, addr)
	if err := cmd.Start(); err != nil {
		return "", 0, err
	}
	go func() { _ = cmd.Wait() }() // killed
	for ctx.Err() == nil {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	return "http://" + addr, cmd.Process.Pid, context.Cause(ctx)
}

// rounds is how often Rota and the empty handler take turns. Other load on the machine changes
// within seconds, and should affect both.
const rounds = 5

// target is a server under load.
type target struct {
	addr string
	tls  *tls.Config // of https
}

// targets are a controller over TLS, as another member reaches it, and without.
func targets(c *lab.Cluster, d *lab.Daemon) (secure, plain target, err error) {
	credential, err := c.Credential()
	if err != nil {
		return secure, plain, err
	}
	return target{d.HTTP, credential.Client(pki.Controller)}, target{addr: d.Plain}, nil
}

// takeTurns loads the leader of a cluster over TLS, the same without TLS, and an empty handler in
// alternation, with the same requests.
func (b *bench) takeTurns(ctx context.Context, c *lab.Cluster, leader *lab.Daemon) (rota, plain, empty served,
	err error,
) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	addr, pid, err := emptyHandler(ctx)
	if err != nil {
		return rota, plain, empty, fmt.Errorf("empty handler: %w", err)
	}
	overTLS, without, err := targets(c, leader)
	if err != nil {
		return rota, plain, empty, err
	}
	body, err := json.Marshal(api.SubmitRequest{Jobs: []*jobspec.Job{held(c.Shared[0])}})
	if err != nil {
		return rota, plain, empty, err
	}
	var pids []int
	for _, controller := range c.Controllers {
		pids = append(pids, controller.Pid())
	}
	for range rounds {
		d := b.span(10*time.Second) / rounds
		e, err := loadServer(ctx, target{addr: addr}, body, d, pid)
		if err != nil {
			return rota, plain, empty, fmt.Errorf("empty handler: %w", err)
		}
		p, err := loadServer(ctx, without, body, d, pids...)
		if err != nil {
			return rota, plain, empty, err
		}
		r, err := loadServer(ctx, overTLS, body, d, pids...)
		if err != nil {
			return rota, plain, empty, err
		}
		rota, plain, empty = rota.and(r), plain.and(p), empty.and(e)
	}
	return rota, plain, empty, nil
}

func (b *bench) submitRates(ctx context.Context, c *lab.Cluster, peer string) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	got, plain, empty, err := b.takeTurns(ctx, c, leader)
	if err != nil {
		return err
	}
	goal := ">= 20000"
	if c.Options.Controllers == 3 {
		goal = ">= 8000"
	}
	name := fmt.Sprintf("%d controllers", c.Options.Controllers)
	b.add("submissions/s, 64 clients, "+name, got.rate(), "/s", ">= 3114",
		fmt.Sprintf("empty handler %.0f/s; p99 %.1f ms", empty.rate(), percentile(got.lat, 99)))
	b.add("the same, of the empty handler's rate, "+name, 100*got.rate()/empty.rate(), "%", "", peer)
	b.add("the same, of its rate without TLS, "+name, 100*got.rate()/plain.rate(), "%", ">= 80",
		fmt.Sprintf("without TLS %.0f/s", plain.rate()))
	b.add("submission p50, "+name, percentile(got.lat, 50), "ms", "",
		fmt.Sprintf("without TLS %.2f ms", percentile(plain.lat, 50)))
	b.add("processor time for each submission, "+name, micros(got.cost()), "us", "",
		fmt.Sprintf("empty handler %.0f us", micros(empty.cost())))
	jobs := make([]*jobspec.Job, 1000)
	for i := range jobs {
		jobs[i] = held(c.Shared[0])
	}
	many, err := json.Marshal(api.SubmitRequest{Jobs: jobs})
	if err != nil {
		return err
	}
	secure, _, err := targets(c, leader)
	if err != nil {
		return err
	}
	l := newLoad(secure, many, 4)
	defer l.close()
	// Short enough that the cluster does not reach its limit of jobs.
	span, lat, err := l.run(ctx, b.span(2*time.Second))
	b.add("jobs/s in requests of 1000, "+name, 1000*float64(len(lat))/span.Seconds(), "/s", goal,
		"Slurm has no such request")
	return err
}

// load is a number of keep-alive clients that post one body, with a new key each time.
type load struct {
	n int
	poster
}

func newLoad(at target, body []byte, n int) *load {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, MaxConnsPerHost: n,
		DialTLSContext: pki.Dialer(at.tls)}}
	return &load{n, poster{client, at, body, api.NewKey()[:8] + "-", new(atomic.Int64)}}
}

func (l *load) close() { l.client.CloseIdleConnections() }

// connect has each client post once, so that the time that connections take is not measured. With
// TLS it is long beside a short run.
func (l *load) connect(ctx context.Context) error {
	_, _, err := l.run(ctx, 0)
	return err
}

// run posts from each client for d, once at least. It returns the duration of all, and of each
// request.
func (l *load) run(ctx context.Context, d time.Duration) (time.Duration, []time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	var mu sync.Mutex
	var all []time.Duration
	var errs error
	var wg sync.WaitGroup
	start := time.Now()
	for range l.n {
		wg.Go(func() {
			lat, err := l.loop(ctx, start.Add(d))
			mu.Lock()
			defer mu.Unlock()
			all, errs = append(all, lat...), errors.Join(errs, err)
		})
	}
	wg.Wait()
	return time.Since(start), all, errs
}

// poster is one client.
type poster struct {
	client *http.Client
	at     target
	body   []byte
	prefix string // of the keys
	number *atomic.Int64
}

func (p poster) loop(ctx context.Context, until time.Time) (lat []time.Duration, err error) {
	for {
		start := time.Now()
		if err := p.once(ctx); err != nil {
			return lat, err
		}
		lat = append(lat, time.Since(start))
		if !time.Now().Before(until) {
			return lat, nil
		}
	}
}

func (p poster) once(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.at.addr+"/v1/jobs", bytes.NewReader(p.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if p.at.tls != nil {
		identity.Vouch(req.Header, model.Identity{User: "root", Home: "/root"})
	}
	req.Header.Set(api.HeaderIdempotencyKey, p.prefix+strconv.FormatInt(p.number.Add(1), 10))
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %.300s", resp.Status, answer)
	}
	return err
}
