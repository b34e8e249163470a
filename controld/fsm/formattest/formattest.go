// Package formattest tells the tests of the log and of snapshots when the form of their JSON has
// changed.
package formattest

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Check holds the JSON of types, by what each is called, against the fingerprint that
// testdata/format.txt has of them. A change before the first release needs another data format;
// after it, another kind of command. With update it writes the fingerprint of a new data format.
func Check(t *testing.T, dataFormat string, update bool, types map[string]reflect.Type) {
	t.Helper()
	const file = "testdata/format.txt"
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(types)) {
		fmt.Fprintf(&b, "%s ", name)
		describe(&b, types[name], nil)
	}
	now := fmt.Sprintf("%s %x\n", dataFormat, sha256.Sum256(b.Bytes()))
	old, err := os.ReadFile(file)
	if err != nil && !update {
		t.Fatal(err)
	}
	if string(old) == now {
		return
	}
	if name, _, _ := strings.Cut(string(old), " "); name == dataFormat {
		t.Fatalf("the JSON that %s is about has changed: change DataFormat and run make golden", file)
	}
	if !update {
		t.Fatal("DataFormat has changed: run make golden")
	}
	if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

// describe writes the names and types of a type's JSON. Types that write their own are told by
// their names.
func describe(b *bytes.Buffer, t reflect.Type, above []reflect.Type) {
	marshaler, text := reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()
	depth := slices.Index(above, t)
	above = append(slices.Clip(above), t)
	switch {
	case depth >= 0:
		fmt.Fprintf(b, "again %d\n", depth)
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		fmt.Fprintf(b, "%s of ", t.Kind())
		describe(b, t.Elem(), above)
	case t.Implements(marshaler) || t.Implements(text) || reflect.PointerTo(t).Implements(marshaler):
		fmt.Fprintf(b, "%s that writes itself\n", t.Kind())
	case t.Kind() == reflect.Map:
		fmt.Fprintf(b, "map by %s of ", t.Key().Kind())
		describe(b, t.Elem(), above)
	case t.Kind() == reflect.Struct:
		b.WriteString("{\n")
		for _, f := range reflect.VisibleFields(t) {
			if tag := f.Tag.Get("json"); f.IsExported() && tag != "-" && !f.Anonymous {
				fmt.Fprintf(b, "%s ", tag)
				describe(b, f.Type, above)
			}
		}
		b.WriteString("}\n")
	default:
		fmt.Fprintln(b, t.Kind())
	}
}
