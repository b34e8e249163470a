package present

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestBytesQuota: what a user holds and may hold, and that more binds, but no operator and not to the byte.
func TestBytesQuota(t *testing.T) {
	w := turns(t)
	w.submit(1)
	owner := &w.s.View().Job(1).Owner
	held := w.s.View().BytesOfUser(owner.UID)
	if held <= 0 || w.s.View().BytesOfUser(owner.UID+1) != 0 {
		t.Fatalf("%d bytes of its user, %d of another", held, w.s.View().BytesOfUser(owner.UID+1))
	}
	for _, c := range []struct {
		most  int64
		binds bool // it is no operator
		want  bool
	}{{held, true, false}, {held - 1, true, true}, {held - 1, false, false}, {0, true, false}} {
		cfg := *w.s.View().Config()
		cfg.MaxSpecBytes = jobspec.Bytes(c.most)
		w.apply(fsm.SetConfig{Config: cfg})
		q := BytesQuota(w.s.View(), owner, c.binds)
		if c.most == 0 {
			c.most = 1 << 30
		}
		if q.Used != held || q.Most != c.most || q.Binds != c.want || q.Resource != api.QuotaSpecBytes || q.Holders == nil ||
			!strings.Contains(q.Text, "may hold ") {
			t.Errorf("%+v: %+v", c, q)
		}
	}
}

// TestWorkersWhoseShimsAreSilent: those of the attempt that runs, as their node says; no others.
func TestWorkersWhoseShimsAreSilent(t *testing.T) {
	w := turns(t)
	id, other := w.submit(1), w.submit(1)
	w.start(id, 0)
	says := func(notice string) {
		n, _ := w.s.View().Node("n1")
		next := *n
		next.Notice = notice
		w.apply(fsm.RegisterNode{Node: next})
	}
	silent := func(id model.JobID) string { return SilentShims(w.s.View(), w.s.View().Job(id)) }
	if silent(id) != "" {
		t.Errorf("a shim that answers: %s", silent(id))
	}
	says("a disk is slow; " + model.SilentNotice("1.1.0", "it took 10s") + model.SilentAdvice)
	want := "the shim of worker 0 on node n1 does not answer (it took 10s): its processes keep running"
	if silent(id) != want || silent(other) != "" {
		t.Errorf("%q and of one that waits %q", silent(id), silent(other))
	}
	says(model.SilentNotice("1.2.0", "it took 10s"))
	if silent(id) != "" {
		t.Errorf("of another attempt: %s", silent(id))
	}
}
