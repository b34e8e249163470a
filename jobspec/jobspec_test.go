package jobspec_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]jobspec.Seconds{
		"30s": 30, "90m": 5400, "2d12h": 216000, "1w": 604800, "1.5h": 5400, "1500ms500ms": 2, "00:10:30": 630, "100:00:00": 360000,
		"3-12:00:00": 302400, "0s": 0, "3650d": jobspec.MaxDuration, "0.1m": 6,
	} {
		if got, err := jobspec.ParseSeconds(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "30", "1.5", "m", "30x", "-1s", "1h-", "10:30", "1:2:3", "00:60:00", "1500ms", "3651d", "1h 30m", "h1", ".5h", "1..5h",
		"99999999999999999999w", "1-2", "::", "1e3s", "٣s",
	} {
		if got, err := jobspec.ParseSeconds(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]jobspec.Bytes{
		"1B": 1, "64K": 65536, "64KB": 65536, "64KiB": 65536, "1.5GiB": 3 << 29, "2T": 2 << 40, "0B": 0, "1024TiB": jobspec.MaxSize, "900M": 900 << 20,
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

// TestBareNumbers wants the message that names the unit to write.
func TestBareNumbers(t *testing.T) {
	_, duration := jobspec.ParseSeconds("30")
	_, size := jobspec.ParseSize("64")
	for hint, err := range map[string]error{`write "30m"`: duration, `write "64GiB"`: size} {
		var bad *jobspec.QuantityError
		if !errors.As(err, &bad) || !bad.NoUnit || bad.Hint != hint {
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
	return &jobspec.Job{Name: "a", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Name: "t", Command: []string{"true"}}}}}}
}

func TestDefault(t *testing.T) {
	job := minimal()
	job.Restart, job.Checkpoint = &jobspec.Restart{Attempts: 1}, &jobspec.Checkpoint{}
	job.Groups[0].Tasks[0].Resources.Cores = 2
	if problems := job.Validate(); problems != nil {
		t.Fatalf("a minimal job is refused: %v", problems)
	}
	job.Default()
	task := job.Groups[0].Tasks[0]
	if *job.Priority != 50 || job.Checkpoint.ExitCode != 85 || job.Restart.Delay != 30 || job.Preemption.Signal != "SIGTERM" {
		t.Errorf("job: %+v", job)
	}
	want := jobspec.Resources{Cores: 2, Memory: 8 * jobspec.GiB, Shm: 4 * jobspec.GiB, Tmp: 4 * jobspec.GiB}
	if task.Resources != want || !*task.Leader || task.KillTimeout != 30 || task.Launch.Type != "single" || *task.Log.Keep != 3 {
		t.Errorf("task: %+v", task)
	}
	once, _ := json.Marshal(job)
	job.Default()
	if twice, _ := json.Marshal(job); string(once) != string(twice) {
		t.Errorf("doing it twice changes the job:\n%s\n%s", once, twice)
	}
	if problems := job.Validate(); problems != nil {
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

// TestValidate breaks one rule at a time, as a client without a job file can.
func TestValidate(t *testing.T) {
	keep := -1
	task := func(j *jobspec.Job) *jobspec.Task { return &j.Groups[0].Tasks[0] }
	for name, c := range map[string]struct {
		spoil      func(*jobspec.Job)
		code, path string
	}{
		"no name":      {func(j *jobspec.Job) { j.Name = "" }, jobspec.CodeName, "name"},
		"no groups":    {func(j *jobspec.Job) { j.Groups = nil }, jobspec.CodeRequired, "groups"},
		"no tasks":     {func(j *jobspec.Job) { j.Groups[0].Tasks = nil }, jobspec.CodeRequired, "groups[0].tasks"},
		"class":        {func(j *jobspec.Job) { j.Class = "x" }, jobspec.CodeChoice, "class"},
		"time":         {func(j *jobspec.Job) { j.TimeLimit = -1 }, jobspec.CodeRange, "time_limit"},
		"memory":       {func(j *jobspec.Job) { task(j).Resources.Memory = -5 }, jobspec.CodeRange, "groups[0].tasks[0].resources.memory"},
		"cores":        {func(j *jobspec.Job) { task(j).Resources.Cores = -1 }, jobspec.CodeRange, "groups[0].tasks[0].resources.cores"},
		"keep":         {func(j *jobspec.Job) { task(j).Log = &jobspec.Log{Keep: &keep} }, jobspec.CodeRange, "groups[0].tasks[0].log.keep"},
		"workdir":      {func(j *jobspec.Job) { j.Workdir = "x" }, jobspec.CodePath, "workdir"},
		"NUL":          {func(j *jobspec.Job) { task(j).Command = []string{"a\x00b"} }, jobspec.CodeText, "groups[0].tasks[0].command[0]"},
		"two programs": {func(j *jobspec.Job) { task(j).Script = "x" }, jobspec.CodeProgram, "groups[0].tasks[0].script"},
		"script":       {func(j *jobspec.Job) { task(j).Command, task(j).Script = nil, strings.Repeat("x", 1<<20+1) }, jobspec.CodeTooLarge, "groups[0].tasks[0].script"},
		"signal":       {func(j *jobspec.Job) { task(j).KillSignal = "KILL" }, jobspec.CodeSignal, "groups[0].tasks[0].kill_signal"},
		"mpi":          {func(j *jobspec.Job) { task(j).Launch = &jobspec.Launch{Type: "mpi"} }, jobspec.CodeUnsupported, "groups[0].tasks[0].launch.type"},
		"nproc twice":  {func(j *jobspec.Job) { task(j).Launch = &jobspec.Launch{Type: "slurm", Nproc: 2, NprocGPU: true} }, jobspec.CodeConflict, "groups[0].tasks[0].launch.nproc"},
		"mount options": {func(j *jobspec.Job) {
			task(j).Mounts = []jobspec.Mount{{Source: "/a", Target: "/b", Options: []string{"x"}}}
		}, jobspec.CodeUnsupported, "groups[0].tasks[0].mounts[0].options"},
		"dev": {func(j *jobspec.Job) { task(j).Mounts = []jobspec.Mount{{Source: "/a", Target: "/x/../dev/shm"}} }, jobspec.CodePath, "groups[0].tasks[0].mounts[0].target"},
	} {
		t.Run(name, func(t *testing.T) {
			job := minimal()
			c.spoil(job)
			problems := job.Validate()
			if len(problems) != 1 || problems[0].Code != c.code || problems[0].Path != c.path {
				t.Errorf("got %v, want %s at %s", problems, c.code, c.path)
			}
			job.Default()
			if after := job.Validate(); len(after) == 0 || after[0] != problems[0] {
				t.Errorf("with defaults: %v, without: %v", after, problems)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A.b_c-9": true, "": false, "-a": false, "a-": false, "a b": false, "ä": false, strings.Repeat("x", 63): true, strings.Repeat("x", 64): false,
	} {
		if jobspec.ValidName(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
}
