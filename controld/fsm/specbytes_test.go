package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// fullAt10KiB is a world in which a user may hold 10 KiB of specifications, and all users 24 KiB.
func fullAt10KiB(t *testing.T) *world {
	w := newWorld(t)
	c := requeueing()
	c.MaxSpecBytes, c.MaxAllSpecBytes = 10*jobspec.KiB, 24*jobspec.KiB
	w.s = New(c)
	w.node("n1", 8)
	return w
}

// scripted submits a job of a user with a script of a length, which is full of one letter.
func (w *world) scripted(uid uint32, letter string, length int, edit ...func(*SubmitJobs)) (model.JobID, error) {
	w.t.Helper()
	spec := testSpec(1, 0)
	t := &spec.Groups[0].Tasks[0]
	t.Command, t.Script = nil, "#!/bin/sh\n#"+strings.Repeat(letter, length)
	c := SubmitJobs{Owner: model.Identity{UID: uid, GID: uid, User: fmt.Sprint("u", uid)}, Jobs: []*jobspec.Job{spec}}
	for _, e := range edit {
		e(&c)
	}
	got, err := w.apply(c)
	if err != nil {
		return 0, err
	}
	return got.([]model.JobID)[0], nil
}

// reloaded goes on with what a snapshot has.
func (w *world) reloaded() {
	w.t.Helper()
	back, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = back
}

// wantFull checks that a submission is refused for its bytes, with the numbers and what to do.
func wantFull(t *testing.T, err error, setting string, words ...string) {
	t.Helper()
	var refused *model.SpecError
	if !errors.As(err, &refused) {
		t.Errorf("it is refused with %v", err)
		return
	}
	for _, word := range append(words, setting+" allows", " more, and ") {
		if !strings.Contains(refused.Text, word) {
			t.Errorf("%q does not say %q", refused.Text, word)
		}
	}
}

// TestBytesOfSpecifications notices a user that may fill the controllers' memory with scripts,
// environments, parameters or comments. It notices a refused user whose jobs share a script or were
// forgotten, and counts that a snapshot does not have.
func TestBytesOfSpecifications(t *testing.T) {
	w := fullAt10KiB(t)
	first, err := w.scripted(1, "a", 4000)
	w.ok(err)
	_, err = w.scripted(1, "b", 4000)
	w.ok(err)
	_, err = w.scripted(1, "c", 4000)
	wantFull(t, err, "limits.max_spec_bytes", "the jobs of user u1 hold 8", "allows 10 KiB", "cancel some", "shared path")
	_, err = w.scripted(1, "a", 4000) // a script counts once
	w.ok(err)
	spec := func(edit func(*jobspec.Job)) func(*SubmitJobs) {
		return func(c *SubmitJobs) {
			c.Jobs[0].Groups[0].Tasks[0].Script, c.Jobs[0].Groups[0].Tasks[0].Command = "", []string{"true"}
			edit(c.Jobs[0])
		}
	}
	long := strings.Repeat("x", 3000)
	for what, edit := range map[string]func(*jobspec.Job){
		"an exported environment": func(j *jobspec.Job) { j.ExportEnv = map[string]string{"A": long} },
		"an environment":          func(j *jobspec.Job) { j.Groups[0].Tasks[0].Env = map[string]string{"A": long} },
		"a command":               func(j *jobspec.Job) { j.Groups[0].Tasks[0].Command = []string{"true", long} },
		"parameters": func(j *jobspec.Job) {
			j.Array = &jobspec.Array{Matrix: []jobspec.Axis{{Name: "a", Values: []string{long, "b"}}}}
		},
	} {
		if _, err := w.scripted(1, "", 0, spec(edit)); err == nil {
			t.Errorf("%s counts for nothing", what)
		}
	}
	_, err = w.scripted(1, "a", 4000, func(c *SubmitJobs) { // the second one in one submission
		more := *c.Jobs[0]
		more.Groups = testSpec(1, 0).Groups
		more.Groups[0].Tasks[0].Command, more.Groups[0].Tasks[0].Script = nil, strings.Repeat("d", 4000)
		c.Jobs = append(c.Jobs, &more)
	})
	wantFull(t, err, "limits.max_spec_bytes")

	held, _ := w.s.s.HeldBytes(1)
	_, err = w.scripted(1, "g", int(10*1024-held)-700) // little is left
	w.ok(err)
	comment := strings.Repeat("c", jobspec.MaxComment)
	err = w.update(UpdateJobs{IDs: []model.JobID{first}, By: 1, Comment: &comment})
	wantFull(t, err, "limits.max_spec_bytes")
	w.ok(w.update(UpdateJobs{IDs: []model.JobID{first}, By: 0, Admin: true, Comment: &comment}))

	_, err = w.scripted(2, "a", 4000) // another user pays for its own
	w.ok(err)
	_, err = w.scripted(3, "e", 9000)
	w.ok(err)
	_, err = w.scripted(4, "f", 4000)
	wantFull(t, err, "limits.max_all_spec_bytes", "all jobs of the cluster hold", "allows 24 KiB", "ask an admin")
	_, err = w.scripted(4, "f", 4000, func(c *SubmitJobs) { c.Unlimited = true })
	wantFull(t, err, "limits.max_all_spec_bytes")

	before, all := w.s.s.HeldBytes(1)
	w.reloaded()
	if got, after := w.s.s.HeldBytes(1); got != before || after != all || before < 8000 || all != w.s.View().SpecBytes() {
		t.Errorf("a user holds %d of %d bytes, by a snapshot %d of %d", before, all, got, after)
	}
	for uid := range uint32(5) { // scripts that several jobs have count once
		if got, _ := w.s.s.HeldBytes(uid); w.s.View().BytesOfUser(uid) != got {
			t.Errorf("user %d holds %d bytes, and by all jobs %d", uid, got, w.s.View().BytesOfUser(uid))
		}
	}
	w.ok(w.control(model.VerbCancel, 1, false, first))
	if got, _ := w.s.s.HeldBytes(1); got != before {
		t.Errorf("a job that is kept after its end counts for nothing: %d of %d bytes", got, before)
	}
	w.must(TrimHistory{UpTo: w.job(first).Seq})
	if got, _ := w.s.s.HeldBytes(1); got >= before-jobspec.MaxComment || got < 8000 { // another job has its script
		t.Errorf("when it is forgotten its user holds %d of %d bytes", got, before)
	}
	w.ok(func() error { _, err := w.scripted(1, "a", 4000); return err }())
}

// TestAnArrayCountsOnce notices an array whose tasks count for the parameters of all of it.
func TestAnArrayCountsOnce(t *testing.T) {
	w := fullAt10KiB(t)
	_, err := w.scripted(1, "a", 4000, func(c *SubmitJobs) { c.Jobs[0].Array = &jobspec.Array{Indices: "0-3"} })
	w.ok(err)
	array := w.s.View().LastJob() - 4
	before, _ := w.s.s.HeldBytes(1)
	for task := 1; task <= 4; task++ {
		w.ok(w.plan(&StartJob{Job: array, TaskNumber: task, Places: []model.Place{w.place("n1", 0)}}))
	}
	if got, _ := w.s.s.HeldBytes(1); got != before {
		t.Errorf("with its tasks the array has %d bytes, before it had %d", got, before)
	}
	w.reloaded()
	if got, _ := w.s.s.HeldBytes(1); got != before {
		t.Errorf("in a snapshot it has %d bytes, before it had %d", got, before)
	}
}

// TestMemoryOfSpecifications measures how much memory a byte of specification takes. It notices one that is kept
// twice, so that max_all_spec_bytes bounds less than it says.
func TestMemoryOfSpecifications(t *testing.T) {
	for name, c := range map[string]struct {
		jobs   int
		script int
		most   float64 // bytes of memory for each
	}{"scripts of 100 KiB": {100, 100 << 10, 1.2}, "scripts of 2 KiB": {1000, 2 << 10, 2}} {
		s := New(requeueing())
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		for i := range c.jobs {
			spec := memorySpec(i, true)
			spec.Groups[0].Tasks[0].Script += strings.Repeat("#", c.script)
			e, err := Encode(Entry{Stamp: model.Stamp{At: model.Instant(i + 1)}, Command: SubmitJobs{Owner: alice,
				Jobs: []*jobspec.Job{spec}}})
			if err != nil {
				t.Fatal(err)
			}
			entry, err := Decode(e)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Apply(uint64(i+1), entry); err != nil {
				t.Fatal(err)
			}
		}
		used, counted := heap()-before, s.View().SpecBytes()
		runtime.KeepAlive(s)
		ratio := float64(used) / float64(counted)
		t.Logf("%s: %d bytes of memory for %d bytes of specifications: %.2f", name, used, counted, ratio)
		if ratio > c.most {
			t.Errorf("%s: a byte takes %.2f bytes of memory, more than %.1f", name, ratio, c.most)
		}
	}
}
