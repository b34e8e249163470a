package doctor

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/controld/api"
)

// cluster holds the answers of the controllers.
type cluster struct {
	err         error // why the controllers could not be asked
	named       bool  // the user or a local socket names the controllers' address
	addrs       []string
	id, name    string
	leader      string
	controllers []api.Controller
	generation  *api.GenerationState // nil: the cluster was never recovered or restored
	refusedBy   []api.RefusingNode
	nodes       []api.Node
	jobs        []api.Job // jobs whose users and user numbers are compared
	reading     *reading  // clock of the controller that answered
}

// jobsAsked is the number of jobs of the queue, and of the history, whose users are compared.
const jobsAsked = 1000

// recorder keeps the headers of answers.
type recorder struct {
	next http.RoundTripper
	now  func() time.Time
	keep *headers
}

type headers struct {
	mu      sync.Mutex
	cluster string
	reading *reading
}

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := r.now()
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	received := r.now()
	r.keep.mu.Lock()
	defer r.keep.mu.Unlock()
	r.keep.cluster = cmp.Or(resp.Header.Get(api.HeaderCluster), r.keep.cluster)
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil && r.keep.reading == nil {
		r.keep.reading = &reading{addr: "the controller that answers", sent: sent, received: received, date: date}
	}
	return resp, err
}

// ask asks the controllers for everything that the checks compare with this machine. It fails only
// if the command line is wrong.
func (in *inspection) ask(env *command.Env, c *cli.Context) error {
	var kept headers
	own := *env
	wrap := env.ClientOptions.Wrap
	own.ClientOptions.Wrap = func(next http.RoundTripper) http.RoundTripper {
		if wrap != nil {
			next = wrap(next)
		}
		return recorder{next, in.now, &kept}
	}
	own.ClientOptions.RetryFor = cmp.Or(own.ClientOptions.RetryFor, time.Second)
	session, err := own.Dial(c)
	if err != nil {
		return err
	}
	defer session.Close()
	k := &in.cluster
	k.addrs = session.Addrs()
	k.named = c.String("addr") != "" || env.Getenv("ROTA_ADDR") != "" || in.exists(api.DefaultSocket) ||
		in.exists(api.ControllerSocket)
	ctx, cancel := context.WithTimeout(c.Context, 2*patience)
	defer cancel()
	shown, _, err := session.Cluster(ctx)
	if err != nil {
		k.err = err
		return nil
	}
	k.name, k.leader, k.controllers = shown.Name, shown.Leader, shown.Controllers
	k.generation, k.refusedBy = shown.Generation, shown.RefusedBy
	if nodes, _, err := session.Nodes(ctx, api.Read{}); err == nil {
		k.nodes = nodes.Items
	}
	if jobs, _, err := session.Jobs(ctx, api.JobFilter{All: true, Limit: jobsAsked, Fields: []string{"user", "uid"}},
		api.Read{}); err == nil {
		k.jobs = jobs.Items
	}
	if jobs, _, err := session.History(ctx, api.HistoryFilter{Limit: jobsAsked}, api.Read{}); err == nil {
		k.jobs = append(k.jobs, jobs.Items...)
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	k.id, k.reading = kept.cluster, kept.reading
	return nil
}
