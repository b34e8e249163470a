package noded

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rota-hpc/rota/controld/member"
)

// systemHosts is the machine's own hosts file.
const systemHosts = "/etc/hosts"

// hostsFile is the hosts file of containers: the machine's own, and before it the nodes that gossip
// knows, so that their names resolve also where DNS knows nothing of them. Running containers have it
// bound, so that it is never replaced by another file.
type hostsFile struct {
	path     string
	system   string // the machine's own file
	node     string // this one's name
	hostname string // of the machine, which is that of the containers too
	log      *slog.Logger

	mu    sync.Mutex
	addrs map[string]netip.Addr // of nodes, also of those that gossip has lost
}

// update writes the file anew if what it says has changed.
func (h *hostsFile) update(peers []member.Peer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.addrs == nil {
		h.addrs = map[string]netip.Addr{}
	}
	for _, p := range peers {
		if addr, known := peerAddr(p); known && p.Role == member.Noded && p.Name != "" &&
			!strings.ContainsAny(p.Name, " \t\r\n#") {
			h.addrs[p.Name] = addr
		}
	}
	system, err := os.ReadFile(h.system)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := hostsText(system, h.addrs, h.node, h.hostname)
	if old, err := os.ReadFile(h.path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return overwrite(h.path, text)
}

// refresh is update for when gossip has news: the file stays as it was where it fails.
func (h *hostsFile) refresh(peers []member.Peer) {
	if err := h.update(peers); err != nil {
		h.log.Error("containers do not learn of new nodes: their hosts file cannot be written", "file", h.path, "err", err)
	}
}

// peerAddr returns where the jobs of a node are reached: at the address of its daemon, or where that
// is a name, at that of its gossip.
func peerAddr(p member.Peer) (netip.Addr, bool) {
	for _, at := range []string{p.HTTP, p.Addr} {
		if host, _, err := net.SplitHostPort(at); err == nil {
			if a, err := netip.ParseAddr(host); err == nil && !a.IsUnspecified() {
				return a.Unmap().WithZone(""), true
			}
		}
	}
	return netip.Addr{}, false
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

// overwrite writes a file in place, since bind mounts show the file and not its name. What is left
// of a longer text becomes empty lines at once, so that a reader sees no half of a line.
func overwrite(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	padded := text
	if rest := int(info.Size()) - len(text); rest > 0 {
		padded = append(slices.Clip(text), bytes.Repeat([]byte("\n"), rest)...)
	}
	_, err = f.WriteAt(padded, 0)
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	return errors.Join(err, f.Close())
}
