package state

import (
	"flag"
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/formattest"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// TestDataFormat notices a change in the form of snapshots. Before the first release it needs
// another [DataFormat].
func TestDataFormat(t *testing.T) {
	formattest.Check(t, DataFormat, *update, map[string]reflect.Type{
		"head": reflect.TypeFor[snapshotHead](), "line": reflect.TypeFor[snapshotLine](),
	})
}
