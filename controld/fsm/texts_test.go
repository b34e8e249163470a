package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestFullSpec submits jobs with all kinds of long parts: what comes back is what went in, also by
// way of JSON and of snapshots.
func TestFullSpec(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("long ", 100)
	var want []*jobspec.Job
	for i, edit := range []func(*jobspec.Job, *jobspec.Task){
		func(*jobspec.Job, *jobspec.Task) {},
		func(_ *jobspec.Job, t *jobspec.Task) { t.Script = "#!/bin/sh\n" },
		func(_ *jobspec.Job, t *jobspec.Task) { t.Script = "#!/bin/sh\n" },
		func(_ *jobspec.Job, t *jobspec.Task) {
			t.Env = map[string]string{"A": "1", "": "", "LONG": long, "Ä": "\x00"}
		},
		func(j *jobspec.Job, _ *jobspec.Task) {
			j.ExportEnv = map[string]string{"HOME": "/home/alice", "X": long}
		},
		func(j *jobspec.Job, t *jobspec.Task) {
			t.Script = "one"
			side := *t
			side.Name, side.Script, side.Lifecycle = "side", "", &jobspec.Lifecycle{Hook: "poststart", Sidecar: true}
			last := side
			last.Name, last.Script, last.Env = "last", "two", map[string]string{"B": "2"}
			j.Groups[0].Tasks = append(j.Groups[0].Tasks, side, last)
			more := j.Groups[0]
			more.Name = "more"
			j.Groups = append(j.Groups, more)
		},
		func(j *jobspec.Job, t *jobspec.Task) {
			t.Script, t.Env = long, map[string]string{"C": "3"}
			j.Array = &jobspec.Array{Indices: "0-2"}
		},
	} {
		spec := testSpec(1, 1)
		spec.Name, spec.Groups[0].Name = fmt.Sprint("j", i), "main"
		edit(spec, &spec.Groups[0].Tasks[0])
		want = append(want, copied(t, spec))
		if _, err := w.apply(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}); err != nil {
			t.Fatal(i, err)
		}
	}
	w.node("n", 8)
	last := w.s.v.LastJob() - 3
	w.ok(w.plan(&StartJob{Job: last, TaskNumber: 2, Places: []model.Place{w.place("n", 1)}}))
	back, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	if err != nil {
		t.Fatal(err)
	}
	if err := back.Check(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Machine{w.s, back, Fork(w.s.View())} {
		k := 0
		for j := range s.View().Jobs() {
			spec := want[min(k, len(want)-1)]
			if k++; j.Parent != 0 && j.Spec.Array == nil {
				k--
				spec = want[k-1]
			}
			data, err := json.Marshal(*j)
			if err != nil {
				t.Fatal(err)
			}
			var decoded model.Job
			if err := json.Unmarshal(data, &decoded); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(j.FullSpec(), spec) || !reflect.DeepEqual(decoded.FullSpec(), spec) {
				t.Errorf("job %d:\n%+v\n%s\nwant\n%+v", j.ID, j.FullSpec(), data, spec)
			}
		}
	}
	if n := strings.Count(string(w.snapshot()), `#!/bin/sh\n`); n != 1 {
		t.Errorf("a script that two jobs have is in the snapshot %d times", n)
	}
}

// copied returns what becomes of a specification in JSON.
func copied(t *testing.T, spec *jobspec.Job) *jobspec.Job {
	t.Helper()
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	out := new(jobspec.Job)
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestScriptsAreForgotten drops a script with the last job that has it.
func TestScriptsAreForgotten(t *testing.T) {
	w := newWorld(t)
	submit := func() (model.JobID, *model.Text) {
		id := w.submit(1, 1, func(j *jobspec.Job) { j.Groups[0].Tasks[0].Script = "same" })
		return id, w.job(id).Texts.Scripts[0]
	}
	gone := func(ids ...model.JobID) {
		for _, id := range ids {
			w.ok(w.control(model.VerbCancel, 1000, false, id))
		}
		w.must(TrimHistory{UpTo: 9})
	}
	a, text := submit()
	b, again := submit()
	if again != text {
		t.Fatal("a script is kept twice")
	}
	gone(a)
	c, again := submit()
	if again != text {
		t.Fatal("a script that a job has is forgotten")
	}
	gone(b, c)
	if _, again = submit(); again == text {
		t.Fatal("a script that no job has is kept")
	}
}

// TestDamagedScripts refuses snapshots whose scripts do not belong together.
func TestDamagedScripts(t *testing.T) {
	w := newWorld(t)
	w.submit(1, 1, func(j *jobspec.Job) { j.Groups[0].Tasks[0].Script = "echo" })
	sound := string(w.snapshot())
	at := strings.Index(sound, `"scripts":["`) + len(`"scripts":["`)
	for _, damaged := range []string{
		strings.Replace(sound, `"text":"echo"`, `"text":"halt"`, 1),
		sound[:at] + "00" + sound[at+2:],
		strings.Replace(sound, `"scripts":["`, `"scripts":["","`, 1),
		strings.Replace(sound, `"scripts":["`+sound[at:at+64]+`"]`, `"scripts":[""]`, 1),
	} {
		if damaged == sound {
			t.Fatal("nothing is damaged")
		}
		if s, err := ReadSnapshot(strings.NewReader(damaged)); err == nil && s.Check() == nil {
			t.Errorf("this is accepted:\n%s", damaged)
		}
	}
	if err := func() error { _, err := ReadSnapshot(strings.NewReader(sound)); return err }(); err != nil {
		t.Fatal(err)
	}
}

// TestPendingMemory keeps what a pending job takes within bounds: at most 2 KiB beside its script.
func TestPendingMemory(t *testing.T) {
	for _, distinct := range []bool{false, true} {
		if got := pendingMemory(t, 20_000, distinct) - 1024; got > 2048 {
			t.Errorf("a pending job takes %d bytes beside its script (names of their own: %v)", got, distinct)
		} else {
			t.Logf("a pending job takes %d bytes beside its script (names of their own: %v)", got, distinct)
		}
	}
}
