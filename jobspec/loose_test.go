package jobspec_test

import (
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

func TestWorkersWithoutGangAreElements(t *testing.T) {
	no := false
	job := func() *jobspec.Job {
		return &jobspec.Job{Name: "a",
			Groups: []jobspec.Group{{Name: "g", Count: 3, Gang: &no,
				Tasks: []jobspec.Task{{Name: "t", Command: []string{"true"}}}}}}
	}
	for _, defaults := range []bool{false, true} {
		j := job()
		if defaults {
			j.Default()
		}
		if problems := rules.Validate(j); len(problems) > 0 {
			t.Fatalf("defaults %t: %v", defaults, problems)
		}
		loose := j.Loosen()
		if loose.Array == nil || loose.Array.Len() != 3 || loose.Array.Index(2) != 2 || loose.Groups[0].Count != 1 ||
			j.Groups[0].Count != 3 || j.Array != nil {
			t.Errorf("defaults %t: %+v of %+v", defaults, loose, j)
		}
		if again := loose.Loosen(); again != loose {
			t.Errorf("defaults %t: loosened twice: %+v", defaults, again)
		}
		loose.Default()
		if problems := rules.Validate(loose); len(problems) > 0 {
			t.Errorf("defaults %t: %v", defaults, problems)
		}
	}
	gang := job()
	gang.Groups[0].Gang = nil
	if gang.Loosen() != gang {
		t.Error("a gang was loosened")
	}
}

// TestNumbersOfWorkersWithoutGang tells workers that start one by one apart by the index of the
// array that they are.
func TestNumbersOfWorkersWithoutGang(t *testing.T) {
	no := false
	for word, code := range map[string]string{"${array.index}": "", "${job.id}": "",
		"${array.lr}": jobspec.CodeNoParameter, "${worker.index}": jobspec.CodeConflict,
		"${worker.count}": jobspec.CodeConflict} {
		j := &jobspec.Job{Name: "a",
			Groups: []jobspec.Group{{Name: "g", Count: 3, Gang: &no,
				Tasks: []jobspec.Task{{Name: "t", Command: []string{"x", word}, Template: true}}}}}
		problems := rules.Validate(j)
		switch {
		case code == "" && len(problems) > 0,
			code != "" && (len(problems) != 1 || problems[0].Code != code ||
				problems[0].Path != "groups[0].tasks[0].command[1]"):
			t.Errorf("%s: got %v, want %q", word, problems, code)
		case code == "":
			if problems := rules.Validate(j.Loosen()); len(problems) > 0 {
				t.Errorf("%s as an array: %v", word, problems)
			}
		}
	}
}
