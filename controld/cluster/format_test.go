package cluster

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

// TestDataFormat holds the JSON of commands and snapshots against the fingerprint that testdata has of them. A change of
// them before the first release needs another [DataFormat]; after it, another kind of command.
func TestDataFormat(t *testing.T) {
	const file = "testdata/format.txt"
	now := fmt.Sprintf("%s %x\n", DataFormat, sha256.Sum256([]byte(schema())))
	old, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if string(old) == now {
		return
	}
	if name, _, _ := strings.Cut(string(old), " "); name == DataFormat {
		t.Fatal("the JSON of a command or of a snapshot has changed: change DataFormat and run make golden")
	}
	if !*update {
		t.Fatal("DataFormat has changed: run make golden")
	}
	if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

// schema describes the JSON of every kind of command and of a snapshot's lines.
func schema() string {
	var b bytes.Buffer
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		c, err := kinds[kind].decode([]byte("{}"))
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "%s ", kind)
		describe(&b, reflect.TypeOf(c), nil)
	}
	for _, v := range []any{envelope[json.RawMessage]{}, snapshotHead{}, snapshotLine{}} {
		describe(&b, reflect.TypeOf(v), nil)
	}
	return b.String()
}

// describe writes the names and types of a type's JSON. Types that write their own are told by their names.
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
