package table

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// PrintJSON writes v as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
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

// otherInYAML11 matches texts that need quotes only in YAML 1.1, which many programs still read: it
// takes words such as yes and off for booleans, and 1:30 for 90.
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
