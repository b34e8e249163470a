package state

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/fsm/index"
	"github.com/rota-hpc/rota/controld/fsm/topology"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// scene is a small cluster in which everything that is checked is there, for a breach to be planted
// in.
type scene struct {
	s       *State
	auditor *Auditor
	run     *model.Job // of two workers on n1 and n2, which have ports
	waiting *model.Job // has a reservation on n3, a deadline, a script and a condition on nodes
	follows *model.Job // waits for the end of run
	array   *model.Job // a parent job of which one task runs on n3
	task    *model.Job
	ended   *model.Job
}

// TestAuditorFindsBreaches plants one breach of an invariant at a time beside what the last command
// has touched: the auditor must see it. Each is also found by the check of the whole state.
func TestAuditorFindsBreaches(t *testing.T) {
	for _, c := range []struct {
		name   string
		breach func(s *scene)
		want   string
	}{
		{"a step that is not allowed", func(s *scene) {
			s.s.checkStep(s.run, &model.Job{ID: s.run.ID, State: model.Pending})
			s.s.checkStep(&model.Job{State: model.Completed}, &model.Job{ID: s.run.ID, State: model.Pending})
		}, "went from"},
		{"a state without its attempt", func(s *scene) { s.run.State = model.Pending }, "does not match its attempt"},
		{"an unknown state", func(s *scene) { s.run.State = "??" }, "no such state"},
		{"part of a gang", func(s *scene) { s.run.Live().Workers = s.run.Live().Workers[:1] }, "workers"},
		{"a worker without its GPU", func(s *scene) { s.run.Live().Workers[0].GPUs = nil }, "differs from the request"},
		{"a worker with an end that goes on", func(s *scene) { s.run.Live().Workers[0].Ended = 5 }, "final without an end"},
		{"a job charged too much", func(s *scene) { s.ended.Ledger.GPUMS++ }, "charged"},
		{"a live job that is not listed", func(s *scene) { s.s.v.live.Drop(int64(s.run.ID)) }, "index of live"},
		{"a live job that is listed as it was", func(s *scene) { old := *s.run; s.s.v.live.Set(int64(s.run.ID), &old) },
			"index of live"},
		{"a waiting job that is listed as live", func(s *scene) { s.s.v.live.Set(int64(s.waiting.ID), s.waiting) },
			"index of live"},
		{"an ended job that is not in the history", func(s *scene) { s.s.v.finished.Drop(s.ended.Seq) }, "history number"},
		{"an id that was not given", func(s *scene) { s.s.v.lastJob = 1 }, "not been assigned yet"},
		{"ids of tasks that were not given", func(s *scene) { s.s.v.lastJob = 6 },
			"ids of its tasks have not been assigned yet"},
		{"an ended job that was dropped from the jobs alone", func(s *scene) { s.s.v.jobs.Drop(int64(s.ended.ID)) },
			"job 2 has left the state, but is still in an index"},
		{"a running job that was dropped from the jobs alone", func(s *scene) { s.s.v.jobs.Drop(int64(s.run.ID)) },
			"job 1 has left the state, but is still in the index of live jobs"},
		{"a job with a deadline that was dropped from the jobs alone",
			func(s *scene) { s.s.v.jobs.Drop(int64(s.waiting.ID)) },
			"job 9 has left the state, but is still in the index of jobs with deadlines"},
		{"a job that others depend on, as it was",
			func(s *scene) { old := *s.follows; s.s.v.jobs.Set(int64(s.follows.ID), &old) }, "job 8"},
		{"a waiting job in no group", func(s *scene) { s.s.unqueue(s.waiting) }, "not in its group"},
		{"a running job in a group", func(s *scene) {
			g := s.s.groups.Find(groups.KeyOf(s.waiting))
			g.Jobs = append(g.Jobs, s.run)
		}, "group"},
		{"a group with the head of another", func(s *scene) { s.s.groups.Find(groups.KeyOf(s.waiting)).Head.Job++ },
			"head of group"},
		{"a condition that is not known", func(s *scene) { s.s.v.nodeSets = topology.NodeSets{} }, "unknown"},
		{"a job counted twice", func(s *scene) { s.s.v.njobs++ }, "index of jobs"},
		{"tasks that are not counted", func(s *scene) { s.s.v.njobs-- }, "index of jobs"},
		{"a waiting job with an end", func(s *scene) { s.waiting.Seq = 9 }, "history"},
		{"a waiting job in a group of another kind",
			func(s *scene) { s.s.groups.Find(groups.KeyOf(s.waiting)).Head.Plain = false }, "head of group"},
		{"a task of no parent", func(s *scene) { s.task.TaskNumber++ }, "not its parent"},
		{"a task with another specification", func(s *scene) { spec := *s.task.Spec; s.task.Spec = &spec },
			"differs from"},
		{"a parent job that counts a task twice", func(s *scene) { s.array.Children.Live++; s.array.Children.Size++ },
			"has counted"},
		{"a parent job that has lost a task", func(s *scene) { s.array.Children.Size++ }, "tasks are missing"},
		{"a parent job that has a task wait that runs", func(s *scene) {
			s.array.Children.Waiting, s.array.Children.Size = s.array.Children.Waiting.With(ranges.Span(s.task.TaskNumber,
				s.task.TaskNumber)), s.array.Children.Size+1
		}, "parent"},
		{"a node said to hold nothing", func(s *scene) { s.holding("n1").workers = nil }, "recorded as holding"},
		{"a port with no owner", func(s *scene) { h := s.holding("n1"); h.ports = append(h.ports, 20003) },
			"recorded as holding"},
		{"a GPU with two owners", func(s *scene) {
			s.run.Live().Workers[1].Place = model.Place{Node: "n3", GPUs: slices.Clone(s.task.Live().Workers[0].GPUs)}
		}, "n3"},
		{"capacity taken by no job", func(s *scene) {
			s.s.ownGrid().Allocate(2, model.Request{Active: model.Vector{Cores: 1}}, []int{})
		}, "recomputed"},
		{"a GPU given back too early", func(s *scene) {
			s.s.ownGrid().Release(0, model.Request{Active: model.Vector{GPUs: 2000}}, []int{0, 1})
		}, "recomputed"},
		{"a claim of nobody", func(s *scene) { s.s.ownGrid().Claim(2, model.Vector{GPUs: 1000}) }, "claims on node"},
		{"a claim that is forgotten", func(s *scene) { s.s.ownGrid().Unclaim(2, model.Vector{GPUs: 1000}) },
			"claims on node"},
		{"a reservation for a running job", func(s *scene) {
			s.s.v.reservations = append(s.s.v.reservations, &model.Reservation{Job: s.s.v.lastJob + 1})
		}, "neither pending nor moving"},
		{"reservations out of order", func(s *scene) { r := s.s.v.reservations; s.s.v.reservations = append(r, r[0]) },
			"out of order"},
		{"a forgotten key", func(s *scene) {
			s.s.v.keys.Remember(index.NewKey(1, "k", "d", 1, []model.JobID{1}))
			s.s.v.keys.Expire(1 << 60)
			s.s.v.keys.Remember(&index.Key{})
			s.s.v.keys.Remember(&index.Key{})
		}, "keys"},
		{"a job with dependencies that is not listed", func(s *scene) { s.s.v.dependents = index.Dependents{} },
			"dependencies"},
		{"a job that waits for one that has ended", func(s *scene) { s.follows.Dependencies[0].Jobs[0] = s.ended.ID },
			"had no effect"},
		{"a dependent that is not told", func(s *scene) { clear(s.s.v.dependents.Of(s.run.ID)) }, "dependents"},
		{"a job with a deadline that is not listed", func(s *scene) { s.s.v.dated.Drop(int64(s.waiting.ID)) }, "deadlines"},
		{"a job that is not found by its name", func(s *scene) { s.s.names.Forget(s.waiting) }, "names"},
		{"a script with too many users", func(s *scene) { s.waiting.Texts.Scripts[0].Refs++ }, "users"},
		{"a licence that nothing holds", func(s *scene) { s.s.v.licenses = map[string]int{"a": 1} }, "held licences"},
		{"a user with too few active jobs", func(s *scene) { s.usage(s.run.Association()).Active-- }, "active"},
		{"an account with too few active jobs",
			func(s *scene) { s.usage(model.Association{Account: s.run.Account}).Active-- }, "active"},
		{"a user that never used anything", func(s *scene) {
			s.usage(s.run.Association()).Hours = []estimate.HourUse{{Hour: 3}, {Hour: 2}}
		}, "out of order"},
		{"a run that is not known", func(s *scene) { s.s.v.runs.Drop(int64(s.run.ID)) }, "index of runs"},
		{"a breach when everything is checked anew", func(s *scene) {
			cfg := *s.s.v.config
			s.s.SetConfig(&cfg)
			s.s.v.njobs++
		}, "index of jobs"},
		{"a run of another attempt", func(s *scene) {
			again := *s.s.v.LiveAttempt(s.run.ID).Attempt
			s.s.v.LiveAttempt(s.run.ID).Attempt = &again
		}, "the index of runs is wrong for job 1"},
		{"a run that holds less", func(s *scene) { s.s.v.LiveAttempt(s.run.ID).Holds[0].Room.Active.GPUs-- }, "run of job"},
		{"a run that never ends", func(s *scene) { s.s.v.LiveAttempt(s.run.ID).Ends = 0 }, "run of job"},
		{"a run of a job that waits", func(s *scene) { s.s.v.runs.Set(int64(s.waiting.ID), s.s.v.LiveAttempt(s.run.ID)) },
			"index of runs"},
		{"a leaf that holds more", func(s *scene) { s.s.v.usageCounters.Of(s.run.Association()).Held.GPUs++ },
			"usage counter"},
		{"a leaf that wants less", func(s *scene) { s.s.v.usageCounters.Of(s.run.Association()).Requested.Memory-- },
			"usage counter"},
		{"a leaf that has held it for longer",
			func(s *scene) { s.s.v.usageCounters.Of(s.run.Association()).Since[0].Late.Cores++ }, "usage counter"},
		{"a leaf that is not known", func(s *scene) { s.s.v.usageCounters = estimate.UsageCounterTable{} }, "usage counter"},
		{"more nodes than there are", func(s *scene) { s.s.v.inventory.Up.GPUs += 1000 }, "inventory"},
		{"a node that meets no condition", func(s *scene) {
			s.s.v.nodeSets.Of(model.ShapeOf(s.waiting).Constraints, nil).Levels[0].Nodes[0] &^= 1 << 2
		}, "n3"},
	} {
		s := newScene(t)
		c.breach(s)
		if err := s.s.Check(); err == nil {
			t.Errorf("%s: the check of the whole state finds nothing", c.name)
		}
		if err := s.auditor.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the auditor says %v, want something about %q", c.name, err, c.want)
		}
	}
}

// newScene reads the cluster, and touches everything in it once more than the auditor has looked.
func newScene(t *testing.T) *scene {
	t.Helper()
	f, err := os.Open("testdata/scene.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read, err := ReadSnapshot(f)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{s: read}
	s.s.names.Newest(index.Name{}) // the index by name is made when it is first needed
	s.s.DependentsOf(s.named("run").ID)
	if s.auditor, err = s.s.Audit(); err != nil {
		t.Fatal(err)
	}
	s.touchAll()
	s.run, s.waiting, s.follows, s.array, s.ended = s.named("run"), s.named("waiting"), s.named("follows"),
		s.named("array"), s.named("ended")
	s.task = s.s.v.Job(s.array.ID + 1)
	return s
}

// named returns the job with a name, the parent job of an array.
func (s *scene) named(name string) *model.Job {
	for j := range s.s.v.Jobs() {
		if j.Spec.Name == name {
			return j
		}
	}
	panic("no job " + name)
}

// touchAll stores all jobs and nodes anew, as commands do.
func (s *scene) touchAll() {
	parent := map[model.JobID]*jobspec.Job{}
	for _, old := range slices.Collect(s.s.v.Jobs()) {
		next := *old
		next.Attempts = slices.Clone(old.Attempts)
		for i := range next.Attempts {
			next.Attempts[i].Workers = slices.Clone(next.Attempts[i].Workers)
		}
		if parent[next.ID] = next.Spec; next.Parent != 0 { // a task has its parent job's specification
			next.Spec = parent[next.Parent]
		}
		s.s.store(old, &next)
	}
	s.s.End()
	for i, n := range s.s.v.nodes {
		again := *n
		s.s.ReplaceNode(i, &again)
	}
}

func (s *scene) holding(node string) *holding {
	_, i := s.s.v.Node(node)
	return s.s.ownHolding(i)
}

func (s *scene) usage(of model.Association) *estimate.PastUse {
	return s.s.v.usage.Of(of)
}

// unqueue takes a pending job out of its group and leaves the rest of the state as it is.
func (s *State) unqueue(pending *model.Job) {
	ended := *pending
	ended.State = model.Cancelled
	s.groups.Update(pending, &ended)
	s.groups.Settle()
}
