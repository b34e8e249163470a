package noded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
)

// TestHostsOfContainers shows which names containers can resolve.
func TestHostsOfContainers(t *testing.T) {
	system := "127.0.0.1 localhost\n127.0.1.1 machine1 machine1.lab # itself\n10.9.0.7 n7\n::1 ip6-localhost\nx n8"
	h := &hosts{system: filepath.Join(t.TempDir(), "system"), node: "n1", hostname: "machine1"}
	if err := os.WriteFile(h.system, []byte(system), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := []api.AllocNode{
		{Name: "n1", Addr: "10.0.0.1:7070", IP: "10.9.0.1"},
		{Name: "n2", Addr: "machine2:7070", IP: "10.0.0.2"}, // it listens at all of its addresses
		{Name: "n3", Addr: "[fd00::3]:7070"},
		{Name: "n4", Addr: "0.0.0.0:7070", IP: "::"},
		{Name: "n7", Addr: "10.0.0.7:7070"}, // the machine's own file knows better
		{Name: "n8", Addr: "10.0.0.8:7070"},
		{Name: "n9", Addr: "machine9:7070"}, {Name: "n 1", Addr: "10.0.0.9:1"}, {Name: "n1\tpypi.org", Addr: "10.0.0.9:1"},
		{Name: "localhost", Addr: "10.0.0.11:7070"}, {Name: "IP6-localhost", Addr: "10.0.0.12:7070"},
	}
	want := "10.0.0.1\tn1 machine1\n10.0.0.2\tn2\nfd00::3\tn3\n10.0.0.8\tn8\n" + system
	if text, err := h.text(nodes); err != nil || string(text) != want {
		t.Errorf("%v\n%s", err, text)
	}
	if err := os.Remove(h.system); err != nil {
		t.Fatal(err)
	}
	if text, err := h.text(nodes[:1]); err != nil || string(text) != "10.0.0.1\tn1 machine1\n" {
		t.Errorf("without a file of the machine's: %v\n%s", err, text)
	}
}
