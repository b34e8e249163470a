package script

import (
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

// TestEmptyValues: an empty value, as from an unset variable, is no error where sbatch 24.11 takes it, and
// an error where it takes none. Each flag with a value is tried.
func TestEmptyValues(t *testing.T) {
	for _, spec := range Flags() {
		if spec.Takes != Value || !spec.Honoured() || slices.Contains([]string{"wrap", "export", "gpu-bind"}, spec.Name) {
			continue
		}
		r := Read([]byte("#!/bin/sh\n./x\n"), Options{Name: "x", Clock: clock(), Flags: []Flag{{Name: spec.Name, Has: true}}})
		taken := r.Job != nil && !r.Problems.Has(Refused)
		if want := slices.Contains(mayBeEmpty, spec.Name); taken != want {
			t.Errorf("--%s=: taken is %v, want %v: %v", spec.Name, taken, want, r.Problems)
		}
	}
	r := Read([]byte("#!/bin/sh\n#SBATCH -d afterok:7 --gres=gpu:2\n./x\n"), Options{Name: "x", Clock: clock(),
		Flags: []Flag{{Name: "dependency", Has: true}}})
	if r.Job == nil || len(r.Job.Dependencies) != 0 || task(r.Job).Resources.GPUs != 2 {
		t.Errorf("an empty flag of the command line leaves that of the script: %+v", r.Job)
	}
}

// TestAsSbatchReads has lines that sbatch 24.11 reads in ways of its own.
func TestAsSbatchReads(t *testing.T) {
	cores := func(n int) func(*jobspec.Job) bool {
		return func(j *jobspec.Job) bool { return task(j).Resources.Cores == n }
	}
	gpus := func(n int) func(*jobspec.Job) bool {
		return func(j *jobspec.Job) bool { return task(j).Resources.GPUs == n }
	}
	variable := func(name, value string) func(*jobspec.Job) bool {
		return func(j *jobspec.Job) bool { return task(j).Env[name] == value }
	}
	for line, is := range map[string]func(*jobspec.Job) bool{
		"#SBATCH-c 2":                             cores(2),
		"#SLURM -c 2":                             cores(2),
		"#SLURM is where this ran":                cores(1),
		"#ROTATE the images -c 2":                 cores(1),
		"#SBATCH -G0":                             gpus(0),
		"#SBATCH --gpus-per-node=0":               gpus(0),
		"#SBATCH --gpus-per-task=0":               gpus(0),
		"#SBATCH --gpus-per-task=a:0":             gpus(0),
		"#SBATCH --gres=gpu:0":                    gpus(0),
		"#SBATCH --gpus-per-task=1 --gpus=2":      gpus(2),
		"#SBATCH --gpus=6 --gpus-per-node=2":      func(j *jobspec.Job) bool { return j.Groups[0].Count == 3 },
		"#SBATCH -t UNLIMITED":                    func(j *jobspec.Job) bool { return j.TimeLimit == jobspec.MaxDuration },
		"#SBATCH -t 0":                            func(j *jobspec.Job) bool { return j.TimeLimit == jobspec.MaxDuration },
		`#SBATCH "--export=ALL,'LST=a,b,c',Z=2"`:  variable("LST", "a,b,c"),
		`#SBATCH "--export=ALL,'LST=a,b,c',Z= 2"`: variable("Z", " 2"),
		`#SBATCH --export=A=it\'s,Z=2`:            variable("A", "it's"),
	} {
		r := Read([]byte("#!/bin/sh\n"+line+"\n./x\n"), Options{Name: "x", Clock: clock()})
		if r.Job == nil || r.Problems.Has(Refused) {
			t.Errorf("%s: %v", line, r.Problems)
		} else if !is(r.Job) {
			t.Errorf("%s: %+v", line, task(r.Job))
		}
	}
	late := Read([]byte("#!/bin/sh\n./x\n#SBATCH -c 2\n"), Options{Name: "x", Clock: clock()})
	if late.Job == nil || task(late.Job).Resources.Cores != 1 || len(late.Problems) != 1 || late.Problems[0].Line != 3 ||
		!strings.Contains(late.Problems[0].Text, "no effect") {
		t.Errorf("behind the first command: %v", late.Problems)
	}
}
