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
	hostname string // of the machine, which is that of the containers too
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

// hostsText returns the lines of a hosts file for nodes, and then those of the machine's own file. A
// name that is there is left to it, such as localhost, but for this machine's own at its loopback.
func hostsText(system []byte, addrs map[string]netip.Addr, node, hostname string) []byte {
	own := map[string]bool{}
	for line := range strings.Lines(string(system)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		a, err := netip.ParseAddr(words[0])
		for _, name := range words[1:] {
			itself := strings.EqualFold(name, node) || strings.EqualFold(name, hostname)
			if err == nil && (!a.IsLoopback() || !itself) {
				own[strings.ToLower(name)] = true
			}
		}
	}
	var b bytes.Buffer
	for _, name := range slices.SortedFunc(maps.Keys(addrs), cmp.Compare[string]) {
		names := []string{name}
		if name == node && hostname != node && hostname != "" {
			names = append(names, hostname)
		}
		names = slices.DeleteFunc(names, func(n string) bool { return own[strings.ToLower(n)] })
		if len(names) > 0 {
			fmt.Fprintf(&b, "%s\t%s\n", addrs[name], strings.Join(names, " "))
		}
	}
	b.Write(system)
	return b.Bytes()
}

// hostOnly returns the host of host:port, "" if there is none.
func hostOnly(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}
