package noded

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/member"
)

// TestHostsOfContainers shows which names containers can resolve, and that a file that is mounted in
// one that runs is never replaced.
func TestHostsOfContainers(t *testing.T) {
	dir := t.TempDir()
	peer := func(role member.Role, name, http, gossip string) member.Peer {
		return member.Peer{Name: name, Addr: gossip, Meta: member.Meta{Role: role, HTTP: http}}
	}
	system := "127.0.0.1 localhost\n127.0.1.1 machine1 machine1.lab # itself\n10.9.0.7 n7\n::1 ip6-localhost\nx n8"
	h := &hostsFile{path: filepath.Join(dir, "hosts"), system: filepath.Join(dir, "system"),
		node: "n1", hostname: "machine1"}
	if err := os.WriteFile(h.system, []byte(system), 0o600); err != nil {
		t.Fatal(err)
	}
	peers := []member.Peer{
		peer(member.Noded, "n1", "10.0.0.1:7070", "10.0.0.1:7072"),
		peer(member.Noded, "n2", "machine2:7070", "10.0.0.2:7072"), // it listens at all of its addresses
		peer(member.Noded, "n3", "[fd00::3]:7070", "10.0.0.3:7072"),
		peer(member.Noded, "n7", "10.0.0.7:7070", ""), // the machine's own file knows better
		peer(member.Noded, "n8", "10.0.0.8:7070", ""),
		peer(member.Noded, "n9", "machine9:7070", ""), peer(member.Noded, "n 1", "10.0.0.9:1", ""),
		peer(member.Noded, "localhost", "10.0.0.11:7070", ""), peer(member.Noded, "IP6-localhost", "10.0.0.12:7070", ""),
		peer(member.Controld, "c1", "10.0.0.10:7070", ""),
	}
	text := func() string {
		t.Helper()
		b, err := os.ReadFile(h.path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := "10.0.0.1\tn1 machine1\n10.0.0.2\tn2\nfd00::3\tn3\n10.0.0.8\tn8\n" + system
	if err := h.update(peers); err != nil || text() != want {
		t.Fatalf("%v\n%s", err, text())
	}
	mounted, err := os.Open(h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	// a node that gossip loses may come back, and another one has a shorter address now
	if err := h.update([]member.Peer{peer(member.Noded, "n3", "10.0.0.3:7070", "")}); err != nil {
		t.Fatal(err)
	}
	want = strings.Replace(want, "fd00::3", "10.0.0.3", 1)
	if b, err := io.ReadAll(mounted); err != nil || string(b) != want || text() != want {
		t.Errorf("%v\n%s", err, b)
	}
	h.addrs = nil // the daemon has started again
	if err := h.update(peers[:1]); err != nil || text() != "10.0.0.1\tn1 machine1\n"+system {
		t.Errorf("%v\n%s", err, text())
	}
	if err := os.Remove(h.system); err != nil {
		t.Fatal(err)
	}
	if err := h.update(nil); err != nil || text() != "10.0.0.1\tn1 machine1\n" {
		t.Errorf("without a file of the machine's: %v\n%s", err, text())
	}
}
