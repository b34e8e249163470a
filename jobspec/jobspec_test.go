package jobspec_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]jobspec.Seconds{
		"30s": 30, "90m": 5400, "2d12h": 216000, "1w": 604800, "1.5h": 5400, "1500ms500ms": 2, "00:10:30": 630,
		"100:00:00":  360000,
		"3-12:00:00": 302400, "0s": 0, "3650d": jobspec.MaxDuration, "0.1m": 6,
	} {
		if got, err := jobspec.ParseSeconds(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "30", "1.5", "m", "30x", "-1s", "1h-", "10:30", "1:2:3", "00:60:00", "1500ms", "3651d", "1h 30m", "h1", ".5h",
		"1..5h",
		"99999999999999999999w", "1-2", "::", "1e3s", "٣s",
	} {
		if got, err := jobspec.ParseSeconds(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]jobspec.Bytes{
		"1B": 1, "64K": 65536, "64KB": 65536, "64KiB": 65536, "1.5GiB": 3 << 29, "2T": 2 << 40, "0B": 0,
		"1024TiB": jobspec.MaxSize, "900M": 900 << 20,
	} {
		if got, err := jobspec.ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "64", "64g", "64 GiB", "-1B", "GiB", "1025TiB", "1P", "50%", "1GiBx"} {
		if got, err := jobspec.ParseSize(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

// TestBareNumbers wants the message that names the unit to write, and none that makes it worse: 3600
// are no minutes, and 64000 no GiB.
func TestBareNumbers(t *testing.T) {
	for number, hint := range map[string]string{
		"30": `write "30s" or "30m"`, "3600": `write "3600s"`, "300": `write "300s"`,
	} {
		if _, err := jobspec.ParseSeconds(number); err == nil || !strings.HasSuffix(err.Error(), " has no unit: "+hint) {
			t.Errorf("%v, want the hint %s", err, hint)
		}
	}
	for number, hint := range map[string]string{
		"64": `write "64GiB"`, "64000": `write "64000MiB"`, "17179869184": `write "17179869184B"`,
	} {
		if _, err := jobspec.ParseSize(number); err == nil || !strings.HasSuffix(err.Error(), " has no unit: "+hint) {
			t.Errorf("%v, want the hint %s", err, hint)
		}
	}
}

func FuzzQuantities(f *testing.F) {
	for _, text := range []string{"30s", "2d12h", "3-12:00:00", "1.5GiB", "64", "1e9G", "0.1m", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := jobspec.ParseSeconds(text); err == nil {
			if d < 0 || d > jobspec.MaxDuration {
				t.Errorf("%q: %d is out of bounds", text, d)
			}
			if again, err := jobspec.ParseSeconds(d.String()); err != nil || again != d {
				t.Errorf("%q: %v is read again as %v, %v", text, d, again, err)
			}
		}
		if b, err := jobspec.ParseSize(text); err == nil {
			if b < 0 || b > jobspec.MaxSize {
				t.Errorf("%q: %d is out of bounds", text, b)
			}
			if again, err := jobspec.ParseSize(b.String()); err != nil || again != b {
				t.Errorf("%q: %v is read again as %v, %v", text, b, again, err)
			}
		}
	})
}

func minimal() *jobspec.Job {
	return &jobspec.Job{Name: "a",
		Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Name: "t", Command: []string{"true"}}}}}}
}

func TestDefault(t *testing.T) {
	job := minimal()
	job.Restart, job.Checkpoint = &jobspec.Restart{Attempts: 1}, &jobspec.Checkpoint{}
	job.Groups[0].Tasks[0].Resources.Cores = 2
	if problems := rules.Validate(job); problems != nil {
		t.Fatalf("a minimal job is refused: %v", problems)
	}
	job.Default()
	task := job.Groups[0].Tasks[0]
	if *job.Priority != 50 || job.Checkpoint.ExitCode != 85 || job.Restart.Delay != 30 ||
		job.Preemption.Signal != "SIGTERM" {
		t.Errorf("job: %+v", job)
	}
	want := jobspec.Resources{Cores: 2, Memory: 8 * jobspec.GiB, Shm: 4 * jobspec.GiB, Tmp: 4 * jobspec.GiB}
	if task.Resources != want || !*task.Leader || task.KillTimeout != 30 || task.Launch.Type != "single" ||
		*task.Log.Keep != 3 {
		t.Errorf("task: %+v", task)
	}
	once, _ := json.Marshal(job)
	job.Default()
	if twice, _ := json.Marshal(job); string(once) != string(twice) {
		t.Errorf("doing it twice changes the job:\n%s\n%s", once, twice)
	}
	if problems := rules.Validate(job); problems != nil {
		t.Errorf("the defaults break rules: %v", problems)
	}
}

// TestDefaultSharesNothing: a copy of a job that gets its defaults does not change the original.
func TestDefaultSharesNothing(t *testing.T) {
	job := minimal()
	job.Restart = &jobspec.Restart{}
	job.Groups[0].Tasks[0].Launch = &jobspec.Launch{}
	restart, launch := job.Restart, job.Groups[0].Tasks[0].Launch
	job.Default()
	if !reflect.DeepEqual(*restart, jobspec.Restart{}) || *launch != (jobspec.Launch{}) {
		t.Errorf("what the job pointed to was changed: %+v %+v", restart, launch)
	}
}

func TestSlurmJobsAreStoppedByUSR1(t *testing.T) {
	job := minimal()
	job.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: "slurm", Nproc: 2}
	job.Default()
	if job.Preemption.Signal != "SIGUSR1" {
		t.Errorf("signal %s", job.Preemption.Signal)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A.b_c-9": true, "": false, "-a": false, "a-": false, "a b": false, "ä": false,
		strings.Repeat("x", 63): true, strings.Repeat("x", 64): false,
	} {
		if jobspec.ValidName(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
}

func TestKeep(t *testing.T) {
	for text, want := range map[string][3]int{"top 25%": {1, 3, 25}, "top 4": {1, 4, 4}, "top 1%": {1, 1, 1},
		"top 99%": {1, 10, 99}} {
		k, err := jobspec.ParseKeep(text)
		if err != nil || k.Of(1) != want[0] || k.Of(10) != want[1] || k.Of(100) != want[2] || k.Of(0) != 0 {
			t.Errorf("%q: %v, %v: %d of 1, %d of 10, %d of 100", text, k, err, k.Of(1), k.Of(10), k.Of(100))
		}
	}
	for _, text := range []string{"", "top", "top ", "top 0", "top 0%", "top 100%", "top -1", "top +5", "best 4", "4",
		"top 4 ", "top 1.5%", "top 9999999999999"} {
		if k, err := jobspec.ParseKeep(text); err == nil {
			t.Errorf("%q was read as %v", text, k)
		}
	}
}

func TestTargets(t *testing.T) {
	for text, want := range map[string]jobspec.Target{
		"123": {ID: 123}, "123_4": {ID: 123, Element: true, Index: 4}, "123_0": {ID: 123, Element: true},
		"prep": {Name: "prep"},
		"a_1":  {Name: "a_1"}, "1_a": {Name: "1_a"}, "12.5": {Name: "12.5"},
	} {
		if got, err := jobspec.ParseTarget(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "007", "-1", "1_", "_1", "1_2_", "9999999999999999999", "1_99999999999",
		"a b"} {
		if got, err := jobspec.ParseTarget(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestProgressPattern(t *testing.T) {
	p, err := jobspec.CompileProgress(`^step (?P<step>\d+).* loss=(?P<loss>\S+)( acc=(?P<acc>\S+))?`)
	if err != nil {
		t.Fatal(err)
	}
	step, metrics, ok := p.Read("step 12 of 99 loss=0.5 acc=NaN")
	if !ok || step != 12 || !reflect.DeepEqual(metrics, map[string]float64{"loss": 0.5}) {
		t.Errorf("%d %v %v", step, metrics, ok)
	}
	if _, _, ok := p.Read("step twelve loss=1"); ok {
		t.Error("a line that does not match was read")
	}
	if !p.Has("acc") || p.Has("f1") {
		t.Error("metrics are not known")
	}
}

// TestTexts changes every text that may hold references.
func TestTexts(t *testing.T) {
	task := jobspec.Task{
		Image: "i", Script: "s", Command: []string{"c"}, Env: map[string]string{"E": "e"},
		Mounts:  []jobspec.Mount{{Source: "m", Target: "t"}},
		Secrets: []jobspec.Secret{{Source: "s", File: "f"}}, Log: &jobspec.Log{Stdout: "o", Stderr: "e"},
		Progress: &jobspec.Progress{File: "f", Pattern: "p"},
	}
	places := map[string]bool{}
	for place, text := range task.Texts() {
		places[place] = true
		*text += "!"
	}
	if len(places) != 12 || task.Env["E"] != "e!" || task.Command[0] != "c!" || task.Progress.Pattern != "p!" ||
		task.Mounts[0].Target != "t!" {
		t.Errorf("%v, %+v", places, task)
	}
	for range task.Texts() {
		break
	}
}
