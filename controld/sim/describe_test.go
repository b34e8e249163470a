package sim

import (
	"strings"
	"testing"
)

// TestKnown: every policy and parameter is described.
func TestKnown(t *testing.T) {
	text := strings.Join(Known(), "\n")
	for i := range policyRows {
		if policyRows[i].what == "" {
			t.Errorf("nothing says what policy %s does", policyRows[i].name)
		}
		for _, k := range policyRows[i].keys {
			if k.what == "" || !strings.Contains(text, "  "+k.name) {
				t.Errorf("nothing says what parameter %s of policy %s does", k.name, policyRows[i].name)
			}
		}
	}
}
