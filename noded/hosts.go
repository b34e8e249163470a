package noded

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/member"
)

// systemHosts is the machine's own hosts file.
const systemHosts = "/etc/hosts"

// hosts makes the hosts files of containers: the nodes of the job, as they have registered with the
// controllers, and then the machine's own file. So their names resolve also where DNS knows nothing of them,
// and no other machine can give itself a name there.
type hosts struct {
	system   string // the machine's own file
	node     string // this one's name
	hostname string // the machine's, which containers share
}

// text returns the hosts file of a container whose job runs on these nodes.
func (h *hosts) text(nodes []api.AllocNode) ([]byte, error) {
	addrs := map[string]netip.Addr{}
	for _, n := range nodes {
		if addr, known := registeredAddr(n.Addr, n.IP); known && member.ValidName(n.Name) {
			addrs[n.Name] = addr
		}
	}
	system, err := os.ReadFile(h.system)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return hostsText(system, addrs, h.node, h.hostname), nil
}

// registeredAddr returns the address at which the jobs of a node are reached. That is the address
// of its daemon or, if that is a name, the node's IP address.
func registeredAddr(http, ip string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(http); err == nil {
		if a, err := netip.ParseAddr(host); err == nil && !a.IsUnspecified() {
			return a.Unmap().WithZone(""), true
		}
	}
	a, err := netip.ParseAddr(ip)
	return a.Unmap().WithZone(""), err == nil && !a.IsUnspecified()
}

// hostsText returns the hosts file of a container. The nodes of the job come first, and then the lines
// of the machine's own file. A name in that file is left to it, such as localhost. The machine's own
// name has one address: see [ownAddr].
func hostsText(system []byte, addrs map[string]netip.Addr, node, hostname string) []byte {
	var own []string           // the names of this machine, in the order of its file
	var found []netip.Addr     // their addresses in the file
	taken := map[string]bool{} // other names in the file
	isOwn := func(name string) bool {
		_, other := addrs[name]
		return (name == node || !other) && (sameHost(name, node) || sameHost(name, hostname))
	}
	addName := func(name string) {
		if name != "" && !slices.ContainsFunc(own, func(n string) bool { return strings.EqualFold(n, name) }) {
			own = append(own, name)
		}
	}
	for line := range strings.Lines(string(system)) {
		a, names, ok := hostsLine(line)
		if !ok {
			continue
		}
		for _, name := range names {
			if isOwn(name) {
				addName(name)
				found = append(found, a)
			} else {
				taken[strings.ToLower(name)] = true
			}
		}
	}
	addName(node)
	addName(hostname)
	var b bytes.Buffer
	registered, isNode := addrs[node]
	addr := ownAddr(registered, found)
	for _, name := range slices.SortedFunc(maps.Keys(addrs), cmp.Compare[string]) {
		switch {
		case name == node:
			fmt.Fprintf(&b, "%s\t%s\n", addr, strings.Join(own, " "))
		case !taken[strings.ToLower(name)]:
			fmt.Fprintf(&b, "%s\t%s\n", addrs[name], name)
		}
	}
	if !isNode { // without a registered address the machine's file decides
		return append(b.Bytes(), system...)
	}
	for line := range strings.Lines(string(system)) {
		b.WriteString(withoutNames(line, isOwn))
	}
	return b.Bytes()
}

// ownAddr returns the address of this machine's name: the registered one, at which others reach it. If
// the machine's file has only other addresses in its networks for the name, the first of these counts.
func ownAddr(registered netip.Addr, found []netip.Addr) netip.Addr {
	found = slices.DeleteFunc(found, func(a netip.Addr) bool {
		return a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified()
	})
	if len(found) == 0 || slices.Contains(found, registered) {
		return registered
	}
	return found[0]
}

// sameHost reports whether two names are of one machine: equal, or one of them with a domain behind it.
func sameHost(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return b != "" && a != "localhost" && (a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+"."))
}

// hostsLine reads a line of a hosts file. The last result is false if it gives no name an address.
func hostsLine(line string) (netip.Addr, []string, bool) {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	if len(words) < 2 {
		return netip.Addr{}, nil, false
	}
	a, err := netip.ParseAddr(words[0])
	return a.Unmap().WithZone(""), words[1:], err == nil
}

// withoutNames returns a line of a hosts file without some of its names, "" if none is left.
func withoutNames(line string, drop func(name string) bool) string {
	_, names, ok := hostsLine(line)
	if !ok || !slices.ContainsFunc(names, drop) {
		return line
	}
	names = slices.DeleteFunc(names, drop)
	if len(names) == 0 {
		return ""
	}
	text, comment, has := strings.Cut(strings.TrimRight(line, "\n"), "#")
	text = strings.Fields(text)[0] + "\t" + strings.Join(names, " ")
	if has {
		text += " #" + comment
	}
	return text + "\n"
}

// hostOnly returns the host of host:port, "" if there is none.
func hostOnly(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}
