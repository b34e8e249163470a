package simulate

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sim"
)

// Every option of rota sim and every name in what it prints is in its document.
func TestSimulatingIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/simulating.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(word string) bool { return regexp.MustCompile(`[^a-z0-9_-]` + word + `[^a-z0-9_-]`).Match(text) }
	for _, f := range simFlags() {
		if name := "--" + f.Names()[0]; !has(name) {
			t.Errorf("option %s is not in docs/simulating.md", name)
		}
	}
	var walk func(reflect.Type)
	walk = func(s reflect.Type) {
		for s.Kind() == reflect.Map || s.Kind() == reflect.Pointer {
			s = s.Elem()
		}
		for i := range s.NumField() {
			name, _, _ := strings.Cut(s.Field(i).Tag.Get("json"), ",")
			if name != "-" && !has(name) {
				t.Errorf("%s.%s, %q in JSON, is not in docs/simulating.md", s.Name(), s.Field(i).Name, name)
			}
			if k := s.Field(i).Type.Kind(); k == reflect.Struct || k == reflect.Map &&
				s.Field(i).Type.Elem().Kind() == reflect.Pointer {
				walk(s.Field(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[sim.Result]())
}
