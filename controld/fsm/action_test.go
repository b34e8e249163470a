package fsm

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// eachAction returns every action, all fields set, by its name in the log.
func eachAction(t *testing.T) map[string]Action {
	t.Helper()
	actions := map[string]Action{}
	stored := reflect.TypeFor[storedAction]()
	for i := range stored.NumField() {
		var s storedAction
		fill(reflect.ValueOf(&s).Elem().Field(i), 0)
		name, _, _ := strings.Cut(stored.Field(i).Tag.Get("json"), ",")
		actions[name] = s.action()
	}
	return actions
}

// TestEveryActionIsStored: each field of the stored form is an action of its own, which writes that
// field and no other.
func TestEveryActionIsStored(t *testing.T) {
	types := map[reflect.Type]string{}
	for name, a := range eachAction(t) {
		if other := types[reflect.TypeOf(a)]; other != "" {
			t.Errorf("%s and %s are both read as %T", name, other, a)
		}
		types[reflect.TypeOf(a)] = name
		text, err := EncodeAction(a)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), `{"`+name+`":`) {
			t.Errorf("%s is written as %s", name, text)
		}
		var back storedAction
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back.action(), a) {
			t.Errorf("%s is read as %+v, %v", text, back, err)
		}
		if a.String() == "" || a.String() == (&unclearAction{}).String() {
			t.Errorf("%s is called %q", name, a)
		}
	}
}

// TestUnclearActions: an action with no field or with two fields is refused alone. The plan is written
// as it was read.
func TestUnclearActions(t *testing.T) {
	const plan = `{"based_on":1,"at":2,"rules":3,"actions":[{},{"give_up":7,"settle":true},{"settle":true},` +
		`{"unreserve":1,"resume":{"job":1,"attempt":2,"gpus":null}}]}`
	const entry = `{"kind":"commit-plan/1","at":1,"wall":2,"body":` + plan + `}`
	e, err := Decode([]byte(entry))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := Encode(e); err != nil || string(line) != entry {
		t.Errorf("%s is written as\n%s, %v", entry, line, err)
	}
	result, err := New(cluster.DefaultConfig()).Apply(1, e)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range result.([]error) {
		if bad := i != 2; errors.Is(err, model.ErrBadAction) != bad || !bad && err != nil {
			t.Errorf("action %d: %v", i, err)
		}
	}
}

// TestFormsOfActions lists forms of a list of actions that are read and such that are not.
func TestFormsOfActions(t *testing.T) {
	for actions, want := range map[string]string{
		`null`:                             `null`,
		`[]`:                               `[]`,
		`[null]`:                           `[{}]`,
		`[{"settle":false}]`:               `[{}]`,
		`[{"start":null}]`:                 `[{}]`,
		`[{"SETTLE":true}]`:                `[{"settle":true}]`,
		`[{"end":{"job":1,"more":2}}]`:     "",
		`[{"settle":true,"hold":1}]`:       "",
		`[{"settle":1}]`:                   "",
		`{}`:                               "",
		`[{"give_up":3},{"unreserve":4}] `: `[{"give_up":3},{"unreserve":4}]`,
	} {
		e, err := Decode([]byte(`{"kind":"commit-plan/1","at":1,"wall":2,"body":{"based_on":0,"at":0,"rules":0,"actions":` +
			actions + `}}`))
		if want == "" {
			if err == nil {
				t.Errorf("%s is read as %+v", actions, e.Command)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", actions, err)
			continue
		}
		line, err := Encode(e)
		if err != nil || !strings.HasSuffix(string(line), `"actions":`+want+`}}`) {
			t.Errorf("%s is written as %s, %v", actions, line, err)
		}
	}
}
