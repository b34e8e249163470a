package controld

import (
	"fmt"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// after is a job that waits for another to end well.
func after(kind string, on ...string) *jobspec.Job {
	j := job("after")
	j.Dependencies = []jobspec.Dependency{{Type: kind, Jobs: on}}
	return j
}

// TestDependenciesOnThePast depends on jobs that the state has, that only the history has, and that
// never were: elements and groups too.
func TestDependenciesOnThePast(t *testing.T) {
	cfg := controller(t, "c1")
	cfg.KeepRecords, cfg.KeepFor = 0, time.Hour
	s := start(t, cfg)
	leaderOf(t, []*running{s})
	n := newNode(t, s.addrs.HTTP, "n1", 8)
	n.run(t.Context())
	c := s.client(user(1000))
	sweep := job("sweep")
	sweep.Array = &jobspec.Array{Indices: "0-2", MaxParallel: 1}
	sweep.Hold = true
	pipe := job("pipe")
	pipe.Groups = append(pipe.Groups, pipe.Groups[0])
	pipe.Groups[0].Name, pipe.Groups[1].Name, pipe.Groups[1].DependsOn = "first", "second", []string{"first"}
	pipe.Hold = true
	ids, err := c.SubmitAll(t.Context(), "", []*jobspec.Job{job("plain"), sweep, pipe})
	if err != nil {
		t.Fatal(err)
	}
	plain, array, groups := fmt.Sprint(ids[0]), fmt.Sprint(ids[1]), fmt.Sprint(ids[2])
	open, err := c.Submit(t.Context(), "", after("afterok", plain, array+"_1", groups+".second"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plain job in the history only", func() error { return trimmed(t, c, ids[0]) })
	got, _, err := c.Job(t.Context(), open, api.Read{})
	if err != nil || len(got.Dependencies) != 1 || len(got.Dependencies[0].Jobs) != 2 {
		t.Fatalf("it waits for %+v, %v", got.Dependencies, err)
	}
	late, err := c.Submit(t.Context(), "", after("afterok", plain))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a job after one that only the history knows", func() error { return trimmed(t, c, late) })
	if plan, err := c.Plan(t.Context(), after("afterok", plain)); err != nil || !plan.Starts {
		t.Fatalf("a plan for the same: %+v, %v", plan, err)
	}
	byName, err := c.Submit(t.Context(), "", after("afterok", "plain"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a job after one of a name that only the history knows", func() error { return trimmed(t, c, byName) })
	_, err = s.client(user(1001)).Submit(t.Context(), "", after("afterok", "plain"))
	wantProblem(t, err, api.CodeNotFound)
	never, err := c.Submit(t.Context(), "", after("afternotok", plain))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := c.Job(t.Context(), never, api.Read{}); err != nil || got.Code != model.Cancelled {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = c.Submit(t.Context(), "", after("afterok", "9999"))
	wantProblem(t, err, api.CodeNotFound)
	_, err = c.Submit(t.Context(), "", after("afterok", "nobody"))
	wantProblem(t, err, api.CodeNotFound)
	_, err = s.client(user(1001)).Submit(t.Context(), "", after("afterok", plain))
	wantProblem(t, err, api.CodeDenied)
	for _, ref := range []string{array, groups} {
		if _, err := c.Control(t.Context(), ref, model.VerbRelease, ""); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the job after all of them", func() error { return trimmed(t, c, open) })
}

// TestNamesThatLookLikeNumbers may be depended on as any others.
func TestNamesThatLookLikeNumbers(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	for _, name := range []string{"3d-unet", "2024.train", "7_b"} {
		if _, err := c.Submit(t.Context(), "", after("afterok", name)); err == nil {
			t.Fatalf("%s: unknown job", name)
		} else {
			wantProblem(t, err, api.CodeNotFound)
		}
		on, err := c.Submit(t.Context(), "", job(name))
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.Submit(t.Context(), "", after("afterok", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := c.Job(t.Context(), id, api.Read{}); err != nil || len(got.Dependencies) != 1 ||
			got.Dependencies[0].Jobs[0] != on {
			t.Errorf("%s is job %d: %+v, %v", name, on, got, err)
		}
	}
}

// trimmed returns nil once a job has ended and left the state.
func trimmed(t *testing.T, c *api.Client, id model.JobID) error {
	list, _, err := c.Jobs(t.Context(), api.JobFilter{All: true}, api.Read{})
	if err != nil {
		return err
	}
	for _, j := range list.Items {
		if j.ID == id {
			return fmt.Errorf("job %d is in state %s (%+v)", id, j.Code, j.Reason)
		}
	}
	return nil
}
