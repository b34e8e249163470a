package replica

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestBothFormsOfASubmissionMeanTheSame applies random submissions once as they were prepared and
// once as the log has them. The two states must be alike to the byte.
func TestBothFormsOfASubmissionMeanTheSame(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	fast, slow := newMachine(), newMachine()
	for i := range 200 {
		body, err := json.Marshal(map[string]any{"jobs": randomJobs(r, i)})
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Jobs []*jobspec.Job }
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, j := range list.Jobs {
			j.Default()
		}
		e := fsm.Entry{Stamp: model.Stamp{At: model.Instant(i), Wall: model.UnixMS(i)},
			Command: fsm.SubmitJobs{Owner: user(uint32(1000 + r.IntN(3))), Key: fmt.Sprint("k", i), Jobs: list.Jobs}}
		data, err := fsm.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		forget := fast.prepared.put(data, e)
		a, b := fast.Apply(uint64(i+1), [][]byte{data}), slow.Apply(uint64(i+1), [][]byte{bytes.Clone(data)})
		forget()
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("seed %d: results %v and %v", seed, a, b)
		}
	}
	if len(fast.prepared.entries) != 0 {
		t.Errorf("%d entries were not forgotten", len(fast.prepared.entries))
	}
	var x, y bytes.Buffer
	if err := fast.view.Load().WriteSnapshot(&x); err != nil {
		t.Fatal(err)
	}
	if err := slow.view.Load().WriteSnapshot(&y); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x.Bytes(), y.Bytes()) {
		t.Errorf("seed %d: the states differ", seed)
	}
	if n := fast.view.Load().LastJob(); n < 200 {
		t.Errorf("seed %d: only %d jobs were accepted", seed, n)
	}
}

// randomJobs are jobs as clients write them, with what JSON can hold and Go tells apart: empty
// lists, empty maps, odd text.
func randomJobs(r *rand.Rand, i int) []*jobspec.Job {
	var jobs []*jobspec.Job
	for n := range 1 + r.IntN(3) {
		j := job(fmt.Sprintf("j%d-%d", i, n))
		task := &j.Groups[0].Tasks[0]
		if r.IntN(2) == 0 {
			j.Tags, j.Meta, task.Env = []string{}, map[string]string{}, map[string]string{}
		}
		if r.IntN(2) == 0 {
			task.Env = map[string]string{"A": "<&>\u2028", "B": "\x00\ufffd", "C": "bad \xff utf8"}
			j.Description = new("é\t\n")
		}
		if r.IntN(2) == 0 {
			p := r.IntN(100)
			j.Priority, j.Hold = &p, true
			j.Restart = &jobspec.Restart{Attempts: 3, RetryOnExit: []int{}}
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// user is an account with this uid.
func user(uid uint32) model.Identity {
	return model.Identity{UID: uid, GID: uid, User: fmt.Sprintf("u%d", uid), Home: "/home/x", GIDs: []uint32{7}}
}

// job is a small job.
func job(name string) *jobspec.Job {
	return &jobspec.Job{Name: name, Workdir: "/tmp", Groups: []jobspec.Group{{
		Name: "main", Tasks: []jobspec.Task{{Name: "main", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}},
	}}}
}
