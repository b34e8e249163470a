package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rota-hpc/rota/controld/api"
)

// PrintJSON writes v as indented JSON. A structure that has no apiVersion gets one, and the name of its
// type as its kind; one with a schema is described by that. A list in it is never null.
func PrintJSON(w io.Writer, v any) error {
	v = withoutNull(v)
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(v); err != nil {
		return err
	}
	b := text.Bytes()
	if kind := kindOf(v); kind != "" {
		var has struct {
			APIVersion string          `json:"apiVersion"`
			Schema     json.RawMessage `json:"schema"`
		}
		if err := json.Unmarshal(b, &has); err == nil && has.APIVersion == "" && has.Schema == nil {
			head := fmt.Sprintf("{\n  \"apiVersion\": %q,\n  \"kind\": %q", api.Version, kind)
			if rest := bytes.TrimPrefix(b, []byte("{")); rest[0] == '}' {
				b = append([]byte(head+"\n"), rest...)
			} else {
				b = append([]byte(head+","), rest...)
			}
		}
	}
	_, err := w.Write(b)
	return err
}

// kindOf returns the kind of a structure, "" of anything else. A type that only adds to another one
// for showing it is called so: clusterShown.
func kindOf(v any) string {
	t := reflect.TypeOf(v)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || t.Name() == "" {
		return ""
	}
	name, _, _ := strings.Cut(t.Name(), "[")
	name = strings.TrimSuffix(name, "Shown")
	return strings.ToUpper(name[:1]) + name[1:]
}

// withoutNull returns v, or a copy, in which lists and maps that would be null are empty.
func withoutNull(v any) any {
	at := reflect.ValueOf(v)
	if !at.IsValid() {
		return v
	}
	if at.Kind() != reflect.Pointer {
		whole := reflect.New(at.Type())
		whole.Elem().Set(at)
		at = whole
	}
	if !at.IsNil() {
		empty(at.Elem(), false)
	}
	return at.Interface()
}

// empty makes lists and maps in a value empty that are nil, unless they are left out then.
func empty(v reflect.Value, leftOut bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			empty(v.Elem(), false)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				empty(v.Field(i), strings.Contains(f.Tag.Get("json"), ",omit"))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return // bytes are a text
		}
		if v.IsNil() && !leftOut && v.CanSet() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			empty(v.Index(i), false)
		}
	case reflect.Map:
		if v.IsNil() && !leftOut && v.CanSet() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	}
}

// PrintYAML writes value as YAML with the names and values of its JSON.
func PrintYAML(w io.Writer, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(b, &node); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	blockStyle(&node)
	out := yaml.NewEncoder(w)
	out.SetIndent(2)
	if err := out.Encode(&node); err != nil {
		return err
	}
	return out.Close()
}

// otherInYAML11 matches texts that need quotes only in YAML 1.1, which many programs still read.
// YAML 1.1 takes words such as yes and off for booleans, and 1:30 for 90.
var otherInYAML11 = regexp.MustCompile(`^(?i:y|yes|n|no|on|off)$|^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)

// blockStyle changes nodes from the style of JSON to that of YAML, except for empty lists and
// objects.
func blockStyle(n *yaml.Node) {
	if len(n.Content) > 0 {
		n.Style &^= yaml.FlowStyle
	}
	if n.Kind == yaml.ScalarNode && n.Tag != "!!str" {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && !otherInYAML11.MatchString(n.Value) {
		n.Style &^= yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}
