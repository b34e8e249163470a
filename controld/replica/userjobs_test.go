package replica

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestJobListsFollowTheState compares the lists of each user's jobs with the state.
func TestJobListsFollowTheState(t *testing.T) {
	m := newMachine()
	at := model.Instant(1)
	apply := func(c fsm.Command) {
		at++
		e := fsm.Entry{Command: c}
		e.At = at
		data, err := fsm.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		m.Apply(uint64(at), [][]byte{data})
	}
	var seen uint64
	for i := range 6 * maxChanges {
		name := fmt.Sprintf("u%d", i%3)
		apply(fsm.SubmitJobs{Owner: model.Identity{UID: uint32(i % 3), User: name}, Jobs: specs(job("x"))})
		if i%2 == 0 {
			apply(fsm.ControlJobs{Verb: model.VerbCancel, Targets: []fsm.Target{{ID: model.JobID(i/2 + 1)}},
				Admin: true})
		}
		if i%500 == 0 {
			apply(fsm.TrimHistory{UpTo: m.view.Load().LastSeq() - 10})
		}
		if i == 6*maxChanges-5 {
			seen = m.view.Load().Index()
		}
	}
	v := m.view.Load()
	for u := range 3 {
		name := fmt.Sprintf("u%d", u)
		var want, changed []model.JobID
		for j := range v.Jobs() {
			if j.Owner.User == name {
				want = append(want, j.ID)
				if v.JobModified(j.ID) > seen {
					changed = append(changed, j.ID)
				}
			}
		}
		if got := m.users.jobs(name); !slices.Equal(got, want) {
			t.Errorf("%s has %d jobs, the list has %d", name, len(want), len(got))
		}
		if got, known := m.users.since(name, seen); !known || !slices.Equal(got, changed) {
			t.Errorf("%s: changed since %d are %v, the list has %v", name, seen, changed, got)
		}
		if _, known := m.users.since(name, 1); known {
			t.Errorf("%s: the list says that it remembers every change", name)
		}
	}
}

// TestARebuiltList forgets everything from before, also for a user without jobs. A client that
// keeps a list of them must learn of it.
func TestARebuiltList(t *testing.T) {
	m := newMachine()
	e := fsm.Entry{Stamp: model.Stamp{At: 1}, Command: fsm.SubmitJobs{Owner: user(1), Jobs: specs(job("x"))}}
	data, err := fsm.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	m.Apply(1, [][]byte{data})
	v := m.view.Load()
	m.users.rebuild(v)
	if _, known := m.users.since("u2", v.Index()-1); known {
		t.Error("it claims to know what happened before it began")
	}
	if !m.users.changedAfter("u2", v.Index()-1)(v) {
		t.Error("a client that is behind waits in vain")
	}
	if ids, known := m.users.since("u2", v.Index()); !known || len(ids) > 0 || m.users.changedAfter("u2", v.Index())(v) {
		t.Errorf("since it began: %v, %t", ids, known)
	}
}

func specs(jobs ...*jobspec.Job) []*jobspec.Job {
	for _, j := range jobs {
		j.Default()
	}
	return jobs
}
