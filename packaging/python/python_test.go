package python

import (
	"os/exec"
	"testing"
)

// TestModule runs the module's own tests.
func TestModule(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	cmd := exec.CommandContext(t.Context(), python, "-W", "error::SyntaxWarning", "-m", "unittest")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
