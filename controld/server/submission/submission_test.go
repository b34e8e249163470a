package submission

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

func TestWhatWouldNotBeHonouredIsRefused(t *testing.T) {
	v := cluster.New(cluster.DefaultConfig()).View()
	owner := cluster.Identity{UID: 7, User: "ada"}
	for want, change := range map[string]func(*jobspec.Job){
		"":              func(j *jobspec.Job) { j.Groups[0].Tasks[0].User = "ada" },
		`user = "root"`: func(j *jobspec.Job) { j.Groups[0].Tasks[0].User = "root" },
		`user = "eve"`: func(j *jobspec.Job) {
			j.Groups = append(j.Groups, j.Groups[0])
			j.Groups[1].Tasks = []jobspec.Task{{User: "eve"}}
		},
		"kill_timeout": func(j *jobspec.Job) { j.Groups[0].Tasks[0].KillTimeout = 24 * 3600 },
		"grace_period": func(j *jobspec.Job) { j.Preemption = &jobspec.Preemption{GracePeriod: 24 * 3600} },
	} {
		j := &jobspec.Job{Name: "x", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"true"}}}}}}
		j.Default()
		change(j)
		err := honoured(v, owner, []*jobspec.Job{j})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
