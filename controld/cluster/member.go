package cluster

import "github.com/rota-hpc/rota/jobspec"

// Group returns the index in Spec.Groups of the group that the job runs: 0 but for the members of a job whose groups run one by one. A gang
// of several groups has the first one here and all in Parts.
func (j *Job) Group() int {
	if j.Parent == 0 || j.Spec.Array != nil {
		return 0
	}
	return j.Member - 1
}

func (j *Job) group() *jobspec.Group { return &j.Spec.Groups[j.Group()] }
