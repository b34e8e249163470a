package attempts

import (
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/convergence"
	"github.com/rota-hpc/rota/jobspec/lossy"
)

// fieldsOf says which kind of news each field of a row belongs to; "": it names the sender.
var fieldsOf = map[string]string{
	"Job": "", "Attempt": "", "Worker": "", "Joined": "",
	"State": "stateNews", "ExitCode": "stateNews", "Signal": "stateNews", "OOM": "stateNews", "Lease": "stateNews",
	"Began": "stateNews", "Unbegun": "stateNews", "Finished": "stateNews", "Total": "stateNews", "Own": "stateNews",
	"Message": "stateNews", "Final": "stateNews", "Why": "stateNews", "PortTaken": "stateNews", "Usage": "stateNews",

	"OutputLost": "lossNews",

	"Policy": "findingNews", "Rate": "rateNews", "Class": "classNews", "Profile": "profileNews", "Packed": "packedNews",
	"Switch": "switchNews", "Means": "switchNews", "TookMS": "switchNews", "Unpaused": "switchNews",
}

// TestEveryFieldIsNews: each field of a row belongs to a kind of news, and a row with a kind's own field
// has that kind.
func TestEveryFieldIsNews(t *testing.T) {
	rows := map[string]model.WorkerReport{
		"findingNews": {Policy: "p", Message: "a line"}, "rateNews": {Rate: 5}, "classNews": {Class: convergence.Watching},
		"profileNews": {Profile: &model.Profile{Rate: 1}}, "packedNews": {Packed: &model.PackedRate{Rate: 1}},
		"lossNews":   {OutputLost: &lossy.Loss{Bytes: 1}},
		"switchNews": {Switch: 1, Means: "frozen", TookMS: 3}, "stateNews": {State: model.WorkerRunning},
	}
	for f := range reflect.TypeFor[model.WorkerReport]().Fields() {
		kind, known := fieldsOf[f.Name]
		if _, has := rows[kind]; !known || kind != "" && !has {
			t.Errorf("the field %s of a row belongs to no kind of news", f.Name)
		}
	}
	for kind, row := range rows {
		if got := kindsIn(&row); !got[kind] || kind != "findingNews" && !got["stateNews"] || len(got) > 2 {
			t.Errorf("a row with %s has %v", kind, got)
		}
	}
}

// TestRowsWithSeveralKinds: a finding comes alone, and the other kinds come together.
func TestRowsWithSeveralKinds(t *testing.T) {
	row := model.WorkerReport{State: model.WorkerRunning, Rate: 5, Class: convergence.Watching, Switch: 1,
		Profile: &model.Profile{Rate: 1}, Packed: &model.PackedRate{Rate: 1}, OutputLost: &lossy.Loss{Bytes: 1}}
	if got := kindsIn(&row); len(got) != 7 || got["findingNews"] {
		t.Errorf("a full row has %v", got)
	}
	row.Policy = "p"
	if got := kindsIn(&row); len(got) != 1 || !got["findingNews"] {
		t.Errorf("a row with a finding has %v", got)
	}
}

func kindsIn(r *model.WorkerReport) map[string]bool {
	kinds := map[string]bool{}
	for _, n := range newsOf(nil, r) {
		t := reflect.TypeOf(n)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		kinds[t.Name()] = true
	}
	return kinds
}
