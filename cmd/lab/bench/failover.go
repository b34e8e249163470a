package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
)

// Failovers.
const (
	failoverKills   = 100
	quickKills      = 8
	failoverClients = 3
	// killPause and killSpread say when a leader is killed: at a random instant of the spread, after
	// the pause, counted from when all is well.
	killPause  = 500 * time.Millisecond
	killSpread = 2 * time.Second
	// electionPoll is how often the other controllers are asked whether one of them leads. It bounds
	// how exact the time of an election is.
	electionPoll = 5 * time.Millisecond
	// outageLimit ends a measurement of a cluster that does not recover.
	outageLimit = time.Minute
)

// measureFailover measures how long a cluster of three controllers at its default settings answers
// no submission after its leader was killed.
func measureFailover(ctx context.Context, b *bench) error {
	dir, shared, err := b.directory("failover")
	if err != nil {
		return err
	}
	o := lab.Options{Bin: b.bin, Dir: dir, Controllers: 3, Shared: []string{shared}}
	return b.cluster(ctx, o, func(c *lab.Cluster) error {
		f := &failover{b: b, c: c, record: newRecord(failoverClients)}
		defer f.close()
		return f.measure(ctx)
	})
}

// failover is a cluster whose leaders are killed, with its clients.
type failover struct {
	b       *bench
	c       *lab.Cluster
	admin   *api.Client
	users   []*api.Client          // one for each submitting client
	members map[string]*api.Client // each asks one controller only
	record  *record
}

func (f *failover) measure(ctx context.Context) error {
	if err := f.dial(); err != nil {
		return err
	}
	// Jobs end at once, so that the queue does not grow with the time that the measurement takes.
	node, err := joinCounting(f.c, "counting")
	if err != nil {
		return err
	}
	stop, err := node.start(ctx)
	if err != nil {
		return err
	}
	kills := failoverKills
	if f.b.quick {
		kills = quickKills
	}
	var outages []outage
	err = f.record.during(ctx, f.submit, func(ctx context.Context) (err error) {
		outages, err = f.b.killAtRandom(ctx, kills, killSpread, f.kill)
		return err
	})
	if err == nil {
		err = drained(ctx, f.admin)
	}
	stop()
	if err != nil {
		return err
	}
	return f.report(ctx, node, outages)
}

// dial connects the clients. All requests go over mutual TLS: the clients are users of a login node.
func (f *failover) dial() (err error) {
	credential, err := f.c.Join(pki.Login, "login")
	if err != nil {
		return err
	}
	secure := credential.Client(pki.Controller)
	for u := range failoverClients {
		client, err := api.DialWith(f.c.HTTPS(), api.Options{Header: vouchFor(u), TLS: secure})
		if err != nil {
			return err
		}
		f.users = append(f.users, client)
	}
	f.members = map[string]*api.Client{}
	for _, d := range f.c.Controllers {
		f.members[d.Name], err = api.DialWith(d.HTTP, api.Options{Header: vouchFor(0), TLS: secure,
			RetryFor: time.Millisecond, Unreachable: time.Millisecond, Answer: time.Second})
		if err != nil {
			return err
		}
	}
	f.admin, err = f.c.Client()
	return err
}

func (f *failover) close() {
	for _, c := range append(f.users, f.admin) {
		if c != nil {
			c.Close()
		}
	}
	for _, c := range f.members {
		c.Close()
	}
}

// submit submits one job as a client, and returns its id when a controller has acknowledged it.
func (f *failover) submit(ctx context.Context, client int) (string, error) {
	job := held(f.c.Shared[0])
	job.Hold = false
	id, err := submitUntilAnswered(ctx, f.users[client], job)
	return fmt.Sprint(id), err
}

// outage is what one kill of a leader, or of slurmctld, caused.
type outage struct {
	elected  time.Duration // until another controller led; 0 for slurmctld
	answered time.Duration // until the first client had an answer
	all      time.Duration // until each client had one
}

// killAtRandom kills n times, each at a random instant of a spread, and returns what each kill
// caused.
func (b *bench) killAtRandom(ctx context.Context, n int, spread time.Duration,
	kill func(context.Context) (outage, error),
) ([]outage, error) {
	rng := rand.New(rand.NewPCG(b.seed, uint64(n)))
	var outages []outage
	for i := range n {
		if err := wait(ctx, killPause+time.Duration(rng.Int64N(int64(spread)))); err != nil {
			return outages, err
		}
		o, err := kill(ctx)
		if err != nil {
			return outages, fmt.Errorf("kill %d of %d, seed %d: %w", i+1, n, b.seed, err)
		}
		outages = append(outages, o)
	}
	return outages, nil
}

// kill kills the leader, measures the outage, and starts the killed controller again.
func (f *failover) kill(ctx context.Context) (outage, error) {
	ctx, cancel := context.WithTimeout(ctx, outageLimit)
	defer cancel()
	leader, err := f.c.Leader(ctx)
	if err != nil {
		return outage{}, err
	}
	info, _, err := f.members[leader.Name].Cluster(ctx)
	if err != nil {
		return outage{}, err
	}
	elected := make(chan time.Time, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { elected <- f.election(ctx, leader.Name, info.Term) })
	begin := time.Now()
	leader.Kill()
	gone := time.Now()
	answers, err := f.record.answersAfter(ctx, gone)
	if err != nil {
		return outage{}, fmt.Errorf("%s was killed, but not every client has an answer: %w", leader.Name, err)
	}
	o := outage{elected: (<-elected).Sub(begin), answered: answers[0].Sub(begin), all: answers[len(answers)-1].Sub(begin)}
	if err := leader.Start(); err != nil {
		return o, err
	}
	return o, f.caughtUp(ctx)
}

// election returns when a controller other than the killed one first says that it, or the third
// one, leads in a later term.
func (f *failover) election(ctx context.Context, killed string, term uint64) time.Time {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan time.Time, len(f.members))
	for name, client := range f.members {
		if name == killed {
			continue
		}
		go func() {
			for ctx.Err() == nil {
				info, _, err := client.Cluster(ctx)
				if err == nil && info.Leader != "" && info.Leader != killed && info.Term > term {
					first <- time.Now()
					return
				}
				_ = wait(ctx, electionPoll)
			}
		}()
	}
	select {
	case at := <-first:
		return at
	case <-ctx.Done():
		return time.Now()
	}
}

// caughtUp waits until each controller knows the leader and has applied what the leader had when it
// was asked.
func (f *failover) caughtUp(ctx context.Context) error {
	leader, err := f.c.Leader(ctx)
	if err != nil {
		return err
	}
	for _, d := range f.c.Controllers {
		for {
			at, _, err := f.members[leader.Name].Cluster(ctx)
			if err == nil {
				err = f.reaches(ctx, d.Name, at)
			}
			if err == nil {
				break
			}
			if cause := wait(ctx, 10*time.Millisecond); cause != nil {
				return fmt.Errorf("%s does not catch up: %w", d.Name, errors.Join(cause, err))
			}
		}
	}
	return nil
}

// catchUp is how long a controller may take to apply what the leader has just applied: one that
// takes longer is behind.
const catchUp = 500 * time.Millisecond

// reaches waits until a controller has applied what the leader had applied.
func (f *failover) reaches(ctx context.Context, name string, leader *api.Cluster) error {
	for deadline := time.Now().Add(catchUp); ; {
		info, _, err := f.members[name].Cluster(ctx)
		if err == nil && info.Leader == leader.Leader && info.Index >= leader.Index {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it is at index %d with leader %q, but %s is at %d", info.Index, info.Leader, leader.Leader,
				leader.Index)
		}
		if time.Now().After(deadline) {
			return err
		}
		if cause := wait(ctx, electionPoll); cause != nil {
			return errors.Join(cause, err)
		}
	}
}

// report verifies that nothing acknowledged was lost, and adds the results.
func (f *failover) report(ctx context.Context, node *countingNode, outages []outage) error {
	acks := &acknowledged{}
	for _, s := range f.record.all() {
		var id model.JobID
		if _, err := fmt.Sscan(s.id, &id); err != nil {
			return err
		}
		acks.ids = append(acks.ids, id)
	}
	v, err := acks.verify(ctx, f.admin, node)
	if err != nil {
		return err
	}
	b, name := f.b, "leader killed, 3 controllers: "
	b.add(name+"kills", float64(len(outages)), "", "", fmt.Sprintf("seed %d", b.seed))
	b.spread(name+"another one elected", outages, func(o outage) time.Duration { return o.elected })
	b.spread(name+"first client answered", outages, func(o outage) time.Duration { return o.answered })
	b.spread(name+"outage", outages, func(o outage) time.Duration { return o.all })
	of := fmt.Sprintf("of %d acknowledged", len(acks.ids))
	b.add(name+"lost", float64(v.lost), "jobs", "0", of)
	b.add(name+"ids given twice", float64(v.reused), "ids", "0", of)
	b.add(name+"not run exactly once", float64(v.wrong), "jobs", "0", of)
	if v != (verdict{}) {
		return fmt.Errorf("of %d acknowledged submissions %d are lost, %d ids were given twice, %d jobs did not run exactly "+
			"once: repeat it with -seed %d", len(acks.ids), v.lost, v.reused, v.wrong, b.seed)
	}
	return nil
}

// spread adds the percentiles of one part of each outage.
func (b *bench) spread(name string, outages []outage, part func(outage) time.Duration) {
	var ds []time.Duration
	for _, o := range outages {
		ds = append(ds, part(o))
	}
	peer := fmt.Sprintf("of %d kills", len(ds))
	b.add(name+", p50", percentile(ds, 50), "ms", "", peer)
	b.add(name+", p99", percentile(ds, 99), "ms", "", peer)
	b.add(name+", max", percentile(ds, 100), "ms", "", peer)
}

// wait waits for d, or returns why ctx ended.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
