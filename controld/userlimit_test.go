package controld

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestJobsAndPollsOfOneUser is the attack of a user that fills the cluster with jobs, or a
// controller with requests that wait: each user has a limit, others are served, and operators are
// not bound.
func TestJobsAndPollsOfOneUser(t *testing.T) {
	cfg := controller(t, "c1")
	replicated := cluster.DefaultConfig()
	replicated.MaxSubmitJobs, replicated.MaxRequests, replicated.Operators = 12, 5, []string{"u1009"}
	cfg.Cluster = &replicated
	s := start(t, cfg)
	s.ready()
	greedy, other, operator := s.client(user(1000)), s.client(user(1001)), s.client(user(1009))
	eventually(t, "the configuration", func() error {
		c, _, err := greedy.Config(t.Context(), api.Read{})
		if err == nil && c.MaxSubmitJobs != 12 {
			err = fmt.Errorf("max_submit_jobs is %d", c.MaxSubmitJobs)
		}
		return err
	})

	array := job("array")
	array.Array = &jobspec.Array{Indices: "1-10"}
	id, err := greedy.Submit(t.Context(), "", array)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := greedy.SubmitAll(t.Context(), "", []*jobspec.Job{job("a"), job("b")}); err == nil {
		t.Error("an array of 10 tasks and two jobs are 13, and were accepted")
	} else if p := wantProblem(t, err, api.CodeInvalidJob); !strings.Contains(p.Detail, "unfinished jobs") ||
		!strings.Contains(p.Detail, "12") {
		t.Errorf("the refusal says %q", p.Detail)
	}
	if _, err := greedy.Submit(t.Context(), "", job("last")); err != nil {
		t.Errorf("the 12th: %v", err)
	}
	if _, err := greedy.Submit(t.Context(), "", job("more")); err == nil {
		t.Error("the 13th job was accepted")
	}
	for range 15 {
		if _, err := operator.Submit(t.Context(), "", job("of-an-operator")); err != nil {
			t.Fatalf("an operator is bound: %v", err)
		}
	}
	if _, err := other.Submit(t.Context(), "", job("of-another")); err != nil {
		t.Errorf("another user: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var polls sync.WaitGroup
	waiting := func(c *api.Client, n int) {
		for range n {
			polls.Go(func() {
				for ctx.Err() == nil {
					_, _, _ = c.Jobs(ctx, api.JobFilter{}, api.Read{After: 1 << 40, Wait: 30 * time.Second})
				}
			})
		}
	}
	waiting(greedy, 8)
	waiting(operator, 20)
	eventually(t, "the refusal of another long poll", func() error {
		_, _, err := greedy.Jobs(t.Context(), api.JobFilter{}, api.Read{After: 1 << 40, Wait: 10 * time.Millisecond})
		if err == nil {
			return fmt.Errorf("it was accepted")
		}
		wantProblem(t, err, api.CodeLimit)
		return nil
	})
	if _, _, err := greedy.Jobs(t.Context(), api.JobFilter{}, api.Read{}); err != nil {
		t.Errorf("a request that does not wait: %v", err)
	}
	briefly := api.Read{After: 1 << 40, Wait: time.Millisecond}
	if _, _, err := other.Jobs(t.Context(), api.JobFilter{}, briefly); err != nil {
		t.Errorf("a long poll of another user: %v", err)
	}
	if err := controlled(greedy.Control(t.Context(), fmt.Sprint(id), model.VerbCancel, "")); err != nil {
		t.Errorf("cancel: %v", err)
	}
	var refused error
	for range 2 * 10 * cluster.DefaultMaxReads {
		if _, _, err := greedy.Jobs(t.Context(), api.JobFilter{}, api.Read{}); err != nil {
			refused = err
			break
		}
	}
	if refused == nil {
		t.Error("a loop that reads is not refused")
	} else if p := wantProblem(t, refused, api.CodeLimit); !strings.Contains(p.Hint, "rota wait") {
		t.Errorf("the refusal of a loop has the hint %q", p.Hint)
	}
	if _, _, err := other.Jobs(t.Context(), api.JobFilter{}, api.Read{}); err != nil {
		t.Errorf("another user beside the loop: %v", err)
	}
	cancel()
	polls.Wait()
	if _, err := greedy.Submit(t.Context(), "", job("again")); err != nil {
		t.Errorf("after the array was cancelled: %v", err)
	}
}
