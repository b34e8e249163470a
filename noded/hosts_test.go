package noded

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	want := "10.0.0.1\tmachine1 machine1.lab n1\n10.0.0.2\tn2\nfd00::3\tn3\n10.0.0.8\tn8\n" +
		strings.Replace(system, "127.0.1.1 machine1 machine1.lab # itself\n", "", 1)
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

// TestOwnAddressOfANode asks the machine's own resolver, in a container's place, for the address of a
// node's name. Whatever the machine's file says of it, there is one, and others can reach it.
func TestOwnAddressOfANode(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it gives this machine another name and hosts file, in namespaces of its own")
	}
	const lan, mesh = "10.0.0.1", "10.9.0.9"
	for _, file := range []struct{ lines, other string }{ // other: the address if none is the registered one
		{"", ""},
		{"127.0.1.1 HOST", ""}, // Debian
		{"127.0.1.1 FULL HOST # Debian", ""},
		{"127.0.0.1 localhost HOST", ""}, // Red Hat, as some images have it
		{"127.0.0.1 localhost localhost.localdomain FULL HOST\n::1 localhost HOST", ""},
		{"::1 HOST ip6-localhost", ""},
		{"fe80::1 HOST\n127.0.1.1 HOST", ""},
		{"10.0.0.1 FULL HOST", lan},
		{"127.0.1.1 HOST\n10.0.0.1 HOST", lan},
		{"10.9.0.9 HOST\n10.0.0.1 HOST", mesh},
		{"10.9.0.9 host.lab\n127.0.1.1 HOST\n10.9.0.8 HOST", mesh},
		{"0.0.0.0 HOST\n127.0.1.1 HOST NODE", ""},
	} {
		for _, names := range []struct{ node, hostname string }{{"host", "host"}, {"host", "host.lab"}, {"host.lab", "host"},
			{"n1", "host"}, {"HOST", "host"}} {
			for _, registered := range []string{lan, "fd00::1", "127.0.0.1"} {
				system := strings.NewReplacer("HOST", "host", "FULL", "host.lab", "NODE", names.node).Replace(file.lines)
				want := registered
				if file.other != "" && !strings.Contains(file.lines, registered+" ") {
					want = file.other
				}
				text := hostsText([]byte("127.0.0.1 localhost\n"+system+"\n10.0.0.2 other\n"), map[string]netip.Addr{
					names.node: netip.MustParseAddr(registered), "other": netip.MustParseAddr("10.0.0.3")}, names.node, names.hostname)
				got := addressesOf(t, text, names.hostname, names.node, "other")
				if got != want+" "+want+" 10.0.0.2" {
					t.Errorf("%q, node %s, host %s at %s: the names have the addresses %s, want %s\n%s", system, names.node,
						names.hostname, registered, got, want, text)
				}
			}
		}
	}
}

// addressesOf returns what the command hostname says of machines of these names with this hosts file.
func addressesOf(t *testing.T, hosts []byte, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, hosts, 0o644); err != nil {
		t.Fatal(err)
	}
	script := "mount --bind " + path + " /etc/hosts"
	for _, name := range names {
		script += " && hostname " + name + " && hostname --ip-address"
	}
	out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "--uts", "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}
