package nodes

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/jobspec"
)

// moved is a leader with a job that ran on node n1 and is to go on, in attempt 2, on node n2.
func moved(t *testing.T, between *servertest.Links) (*site, model.JobID) {
	t.Helper()
	s := leading(t, servertest.Leading(t, 1, between))
	for _, n := range []string{"n1", "n2", "n3"} {
		servertest.Boot(t, s.Replica, n, "b"+n)
	}
	id := submitOne(t, s)
	start(t, s, id, "n1")
	tell(t, s, "n1", model.WorkerReport{Job: id, Attempt: 1, State: model.WorkerRunning})
	tell(t, s, "n1", model.WorkerReport{Job: id, Attempt: 1, State: model.WorkerExited, ExitCode: 85})
	start(t, s, id, "n2")
	return s, id
}

// submitOne submits a job with checkpoints on its node.
func submitOne(t *testing.T, s *site) model.JobID {
	t.Helper()
	spec := &jobspec.Job{Name: "j", Checkpoint: &jobspec.Checkpoint{NodeLocal: true}, Groups: []jobspec.Group{{Count: 1,
		Tasks: []jobspec.Task{{Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
	ids, err := s.Replica.Propose(t.Context(), fsm.SubmitJobs{Owner: model.Identity{UID: 1000, User: "u1000"},
		Jobs: []*jobspec.Job{spec}})
	if err != nil {
		t.Fatal(err)
	}
	return ids.([]model.JobID)[0]
}

func start(t *testing.T, s *site, id model.JobID, node string) {
	t.Helper()
	refusals, err := s.Replica.Propose(t.Context(), fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id,
		Places: []model.Place{{Node: node}}}}})
	if err != nil || refusals.([]error)[0] != nil {
		t.Fatal(refusals, err)
	}
}

func tell(t *testing.T, s *site, node string, r model.WorkerReport) {
	t.Helper()
	if _, err := s.Replica.Propose(t.Context(), fsm.NodeReport{Node: node, BootID: "b" + node,
		Workers: []model.WorkerReport{r}}); err != nil {
		t.Fatal(err)
	}
}

// mayCopy asks, as a node, whether it may send a folder to another one.
func mayCopy(t *testing.T, s *site, node, folder, to string) (*api.CheckpointCopy, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.SetPathValue("name", node)
	r.SetPathValue("id", folder)
	return s.mayCopyCheckpoint(exchangetest.On(s.Service, r, url.Values{"boot_id": {"b" + node}, "for": {to}}))
}

func dropped(t *testing.T, s *site, node string, ids ...string) (drop, unknown []string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.SetPathValue("name", node)
	out, err := s.dropCheckpoints(exchangetest.On(s.Service, r, nil),
		&api.KeptCheckpoints{BootID: "b" + node, IDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	return out.IDs, out.Unknown
}

// TestWhichNodeMayCopyACheckpoint notices a folder that a node gets that is not to run the job next, or
// that it gets from a node, or of an attempt or a worker, that is not the one.
func TestWhichNodeMayCopyACheckpoint(t *testing.T) {
	s, id := moved(t, &servertest.Links{})
	if id != 1 {
		t.Fatalf("the job has id %d", id)
	}
	got, err := mayCopy(t, s, "n1", "1.1.0", "n2")
	if err != nil || got.Attempt != 2 {
		t.Errorf("the next node: %+v, %v", got, err)
	}
	for _, c := range [][3]string{{"n1", "1.1.0", "n3"}, {"n1", "1.1.0", "n1"}, {"n1", "1.1.0", ""}, {"n3", "1.1.0", "n2"},
		{"n1", "1.2.0", "n2"}, {"n1", "1.0.0", "n2"}, {"n1", "1.1.1", "n2"}, {"n1", "2.1.0", "n2"}} {
		_, err := mayCopy(t, s, c[0], c[1], c[2])
		servertest.WantCode(t, err, api.CodeDenied)
	}
	for _, folder := range []string{"", "1.1", "1.1.0.", "1.1.-1", "01.1.0", "1.1.0 "} {
		_, err := mayCopy(t, s, "n1", folder, "n2")
		servertest.WantCode(t, err, api.CodeInvalid)
	}
	tell(t, s, "n2", model.WorkerReport{Job: id, Attempt: 2, State: model.WorkerRunning})
	_, err = mayCopy(t, s, "n1", "1.1.0", "n2")
	servertest.WantCode(t, err, api.CodeDenied) // it has begun
}

// TestALeaderWithoutAQuorumDropsNothing notices an old leader that has a node remove what a newer one
// needs.
func TestALeaderWithoutAQuorumDropsNothing(t *testing.T) {
	between := &servertest.Links{}
	s := leading(t, servertest.Leading(t, 3, between))
	servertest.Boot(t, s.Replica, "n1", "bn1")
	submitOne(t, s)
	if got, _ := dropped(t, s, "n1", "1.0.1"); len(got) != 1 {
		t.Fatalf("with a quorum: %v", got)
	}
	between.Cut()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.SetPathValue("name", "n1")
	if got, err := s.dropCheckpoints(exchangetest.On(s.Service, r, nil),
		&api.KeptCheckpoints{BootID: "bn1", IDs: []string{"1.0.1"}}); err == nil {
		t.Errorf("without a quorum: %v", got)
	}
}

// TestWhichFoldersAreNeeded notices a folder that is dropped although the job goes on with it, or although
// this state is too old to know its job. It also notices a folder that stays for ever.
func TestWhichFoldersAreNeeded(t *testing.T) {
	s, id := moved(t, &servertest.Links{})
	all, newer := []string{"1.1.0", "1.2.0", "1.1.1"}, []string{"2.1.0", "1.3.0"}
	want := func(when string, n1, n2, n3 []string) {
		t.Helper()
		for node, want := range map[string][]string{"n1": n1, "n2": n2, "n3": n3} {
			got, unknown := dropped(t, s, node, slices.Concat(newer, all)...)
			if !slices.Equal(got, want) || !slices.Equal(unknown, newer) {
				t.Errorf("%s, node %s drops %v, not %v, and %v are unknown, not %v", when, node, got, want, unknown, newer)
			}
		}
	}
	other := all[2:] // there is no worker 1
	want("before it runs", other, other, all)
	tell(t, s, "n2", model.WorkerReport{Job: id, Attempt: 2, State: model.WorkerFailed, Message: "no room"})
	want("its launch has failed", other, all, all)
	s, id = moved(t, &servertest.Links{})
	v := s.Replica.View()
	if from := present.Checkpoint(v, v.Job(id), 0); from == nil || from.Node != "n1" || from.Attempt != 1 ||
		from.Addr == "" {
		t.Errorf("attempt 2 begins with %+v", from)
	}
	tell(t, s, "n2", model.WorkerReport{Job: id, Attempt: 2, State: model.WorkerRunning})
	want("it runs", all, []string{"1.1.0", "1.1.1"}, all)
	tell(t, s, "n2", model.WorkerReport{Job: id, Attempt: 2, State: model.WorkerExited})
	want("it is over", all, all, all)
}

// TestAStoppedLaunchKeepsTheSource notices a job that is stopped while its folder is copied, and then
// begins anew as if it had run there.
func TestAStoppedLaunchKeepsTheSource(t *testing.T) {
	s, id := moved(t, &servertest.Links{})
	tell(t, s, "n2", model.WorkerReport{Job: id, Attempt: 2, State: model.WorkerExited, Signal: 9, Unbegun: true,
		Message: "stopped before it started"})
	if got, _ := dropped(t, s, "n1", "1.1.0"); len(got) != 0 && !s.Replica.View().Job(id).State.Final() {
		t.Errorf("dropped: %v", got)
	}
	if last := s.Replica.View().Job(id).LastRun(0, 0); last == nil || last.N != 1 {
		t.Errorf("it ran last in %+v", last)
	}
}

// TestANodeThatIsDownHasNoCheckpoint notices a job that waits for a node that may never come back.
func TestANodeThatIsDownHasNoCheckpoint(t *testing.T) {
	s, id := moved(t, &servertest.Links{})
	_, err := s.Replica.Propose(t.Context(), fsm.SetNodeState{Node: "n1", State: model.NodeDown, Reason: "test"})
	if err != nil {
		t.Fatal(err)
	}
	v := s.Replica.View()
	if from := present.Checkpoint(v, v.Job(id), 0); from != nil {
		t.Errorf("got %+v", from)
	}
}
