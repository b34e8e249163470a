package index

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestCheckFindsDamage damages one sound index at a time: its checks must say so.
func TestCheckFindsDamage(t *testing.T) {
	job := func(id model.JobID, name string, waitsFor ...model.JobID) *model.Job {
		j := &model.Job{ID: id, State: model.Pending, Spec: &jobspec.Job{Name: name}}
		if len(waitsFor) > 0 {
			j.Dependencies = []model.OpenDependency{{Type: model.NeedAfterOK, Jobs: waitsFor}}
		}
		return j
	}
	jobs := []*model.Job{job(1, "a"), job(2, "a", 1), job(3, "b", 1, 2)}
	all := func() iter.Seq[*model.Job] { return slices.Values(jobs) }
	for _, c := range []struct {
		name   string
		damage func(n *Names, d *Dependents, k *Keys)
		want   string
	}{
		{"nothing", func(*Names, *Dependents, *Keys) {}, ""},
		{"a job that is not found by its name", func(n *Names, _ *Dependents, _ *Keys) { n.by[NameOf(jobs[0])].open = nil },
			"names"},
		{"a name of no job", func(n *Names, _ *Dependents, _ *Keys) { n.by[Name{7, "x"}] = &named{} }, "names"},
		{"a job with dependencies that is not listed", func(_ *Names, d *Dependents, _ *Keys) { d.waiting.Drop(3) },
			"dependencies"},
		{"an old version of a job with dependencies", func(_ *Names, d *Dependents, _ *Keys) {
			d.waiting.Set(3, job(3, "b", 1, 2))
		}, "job 3 has dependencies, but is missing from the index"},
		{"a dependent that is not told", func(_ *Names, d *Dependents, _ *Keys) { d.by[1] = d.by[1][:1] }, "dependents"},
		{"a forgotten key", func(_ *Names, _ *Dependents, k *Keys) { clear(k.at) }, "keys"},
		{"a key that is found elsewhere", func(_ *Names, _ *Dependents, k *Keys) { k.at[keyName{1, "k2"}]-- }, "keys"},
	} {
		names, dependents, keys := NewNames(all), Dependents{}, Keys{}
		for _, j := range jobs {
			dependents.Update(nil, j)
		}
		names.Newest(Name{})
		dependents.Of(1)
		for i, key := range []string{"k1", "k2"} {
			keys.Remember(NewKey(1, key, "d", model.Instant(i), []model.JobID{model.JobID(i + 1)}))
		}
		c.damage(&names, &dependents, &keys)
		var found []string
		note := func(err error) {
			if err != nil {
				found = append(found, err.Error())
			}
		}
		note(names.Check())
		dependents.Check(all(), note)
		note(keys.Check())
		if got := strings.Join(found, "; "); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: the checks say %q, want something about %q", c.name, got, c.want)
		}
	}
}
