package estimate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

var ann = model.Association{Account: "team", User: "ann"}

// usageOfAnn returns a table in which a leaf has held a core for some hours.
func usageOfAnn(hours model.Instant) *UsageTable {
	t := &UsageTable{}
	t.Charge(ann, model.Vector{Cores: 1}, 0, Moment{At: hours * HourMS, Epoch: 1})
	return t
}

func TestUsageTableForgets(t *testing.T) {
	table := usageOfAnn(400)
	table.forget(401 * HourMS)
	if table.Of(ann) == nil {
		t.Error("what was used an hour ago is forgotten")
	}
	table.forget(1000 * HourMS)
	if !table.leaves.Empty() || len(table.slots) != 0 {
		t.Error("what was used weeks ago is still known")
	}
}

func TestUsageTableChecksSlots(t *testing.T) {
	for name, damage := range map[string]func(*UsageTable){
		"":     func(*UsageTable) {},
		"slot": func(table *UsageTable) { table.slots[ann] = 77 },
	} {
		table := usageOfAnn(3)
		damage(table)
		var whole, leaf []string
		note := func(list *[]string) func(error) {
			return func(err error) {
				if err != nil {
					*list = append(*list, fmt.Sprint(err))
				}
			}
		}
		table.Check(slices.Values([]*model.Job(nil)), note(&whole))
		table.CheckLeaf(ann, 0, note(&leaf))
		for _, found := range [][]string{whole, leaf} {
			if (len(found) > 0) != (name != "") || !strings.Contains(strings.Join(found, " "), name) {
				t.Errorf("damage %q: found %q", name, found)
			}
		}
	}
}
