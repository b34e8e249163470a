package schedtest

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// limit sets the limit of an owner: of queue=, account= or user=, or of a user in one of the two.
// Options are running, submitted, gpus, gpu-minutes, cores, memory (GiB), nodes and max-time;
// without any the owner has no limit.
func (w *World) limit(options map[string]string) error {
	l, err := limitOf(options)
	if err != nil {
		return err
	}
	c := *w.State.View().Config()
	queue, account, user := options["queue"], options["account"], options["user"]
	switch {
	case queue != "":
		c.Queues = maps.Clone(c.Queues)
		q := c.Queues[queue]
		if user == "" {
			q.Limit = l
		} else {
			q.Users = withUser(q.Users, user, l)
		}
		c.Queues[queue] = q
	case account != "":
		if c.Accounts = maps.Clone(c.Accounts); c.Accounts == nil {
			c.Accounts = map[string]cluster.Account{}
		}
		a := c.Accounts[account]
		if user == "" {
			a.Limit = l
		} else {
			terms := a.Users[user]
			terms.Limit = l
			a.Users = withUser(a.Users, user, terms)
		}
		c.Accounts[account] = a
	default:
		c.Users = withUser(c.Users, user, cluster.UserRules{Limit: l})
	}
	_, err = w.Apply(fsm.SetConfig{Config: c})
	return err
}

// withUser returns a copy of a map with another entry.
func withUser[V any](users map[string]V, user string, v V) map[string]V {
	next := map[string]V{}
	maps.Copy(next, users)
	next[user] = v
	return next
}

// limitOf reads a limit; nil: there is none.
func limitOf(options map[string]string) (*cluster.Limit, error) {
	l, any := &cluster.Limit{}, false
	for k, v := range options {
		if k == "queue" || k == "account" || k == "user" {
			continue
		}
		any = true
		if k == "max-time" {
			ms, err := milliseconds(v)
			if err != nil {
				return nil, err
			}
			l.MaxTime = jobspec.Seconds(ms / 1000)
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return nil, err
		}
		milli, size := n*1000, jobspec.Bytes(n)*jobspec.GiB
		switch k {
		case "running":
			l.Running = &n
		case "submitted":
			l.Submitted = &n
		case "gpus":
			l.GPUs = &milli
		case "gpu-minutes":
			l.GPUMinutes = &n
		case "cores":
			l.Cores = &n
		case "memory":
			l.Memory = &size
		case "nodes":
			l.Nodes = &n
		default:
			return nil, fmt.Errorf("no limit %q", k)
		}
	}
	if !any {
		return nil, nil
	}
	return l, nil
}

// queue adds or changes queues: nodes and accounts, comma-separated, and label=KEY:VALUE.
func (w *World) queue(names []string, options map[string]string) error {
	c := *w.State.View().Config()
	c.Queues = maps.Clone(c.Queues)
	for _, name := range names {
		q, known := c.Queues[name]
		if !known {
			q = c.Queues[model.DefaultQueue]
		}
		q.Nodes, q.Accounts, q.Labels = nil, nil, nil
		for k, v := range options {
			switch k {
			case "nodes":
				q.Nodes = strings.Split(v, ",")
			case "accounts":
				q.Accounts = strings.Split(v, ",")
			case "label":
				key, value, _ := strings.Cut(v, ":")
				q.Labels = map[string]string{key: value}
			default:
				return fmt.Errorf("no option %q", k)
			}
		}
		c.Queues[name] = q
	}
	_, err := w.Apply(fsm.SetConfig{Config: c})
	return err
}

// refused submits a job that the cluster refuses, and prints why.
func (w *World) refused(names []string, options map[string]string) error {
	err := w.submit(names, options)
	if err == nil {
		return fmt.Errorf("%s was not refused", names)
	}
	var at *model.JobError
	if errors.As(err, &at) {
		err = at.Err
	}
	w.say("refused: %v", err)
	return nil
}
