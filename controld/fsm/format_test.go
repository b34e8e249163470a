package fsm

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/formattest"
	"github.com/rota-hpc/rota/controld/fsm/state"
)

// TestDataFormat notices a change in the form of commands. Before the first release it needs
// another [state.DataFormat].
func TestDataFormat(t *testing.T) {
	types := map[string]reflect.Type{"entry": reflect.TypeFor[envelope[json.RawMessage]]()}
	for kind, row := range kinds {
		c, err := row.decode([]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		types[string(kind)] = reflect.TypeOf(c)
		if c, ok := c.(storedApart); ok {
			types[string(kind)] = reflect.TypeOf(c.stored())
		}
	}
	formattest.Check(t, state.DataFormat, *update, types)
}
