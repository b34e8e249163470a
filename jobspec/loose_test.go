package jobspec_test

import (
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

func TestWorkersWithoutGangAreElements(t *testing.T) {
	no := false
	job := func() *jobspec.Job {
		return &jobspec.Job{Name: "a", Groups: []jobspec.Group{{Name: "g", Count: 3, Gang: &no, Tasks: []jobspec.Task{{Name: "t", Command: []string{"true"}}}}}}
	}
	for _, defaults := range []bool{false, true} {
		j := job()
		if defaults {
			j.Default()
		}
		if problems := j.Validate(); len(problems) > 0 {
			t.Fatalf("defaults %t: %v", defaults, problems)
		}
		loose := j.Loosen()
		if loose.Array == nil || loose.Array.Len() != 3 || loose.Array.Index(2) != 2 || loose.Groups[0].Count != 1 || j.Groups[0].Count != 3 || j.Array != nil {
			t.Errorf("defaults %t: %+v of %+v", defaults, loose, j)
		}
		if again := loose.Loosen(); again != loose {
			t.Errorf("defaults %t: loosened twice: %+v", defaults, again)
		}
		loose.Default()
		if problems := loose.Validate(); len(problems) > 0 {
			t.Errorf("defaults %t: %v", defaults, problems)
		}
	}
	gang := job()
	gang.Groups[0].Gang = nil
	if gang.Loosen() != gang {
		t.Error("a gang was loosened")
	}
}
