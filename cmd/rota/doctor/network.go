package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
)

// hostName checks that the name of this machine resolves to one of its own addresses.
func (in *inspection) hostName(ctx context.Context) []finding {
	const name = "host name"
	const fix = "add this machine's name and address to /etc/hosts or DNS"
	host, err := in.hostname()
	if err != nil || host == "" {
		return one(warn, name, "set it with hostnamectl", "this machine has no name: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := in.lookup(ctx, host)
	if err != nil {
		return one(warn, name, fix, "%s does not resolve: %v", host, err)
	}
	own, _ := in.addrs() // with an unreadable list, no address counts as this machine's
	loopback := false
	for _, text := range found {
		a, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		a = a.Unmap().WithZone("")
		switch {
		case a.IsLoopback():
			loopback = true
		case slices.Contains(own, a):
			return fine(name, "%s resolves to %s", host, a)
		}
	}
	if loopback {
		return one(note, name, fix, "%s resolves to loopback only (%s): other machines cannot reach programs that listen "+
			"on this address", host, strings.Join(found, ", "))
	}
	return one(warn, name, fix, "%s resolves to %s, which is no address of this machine", host, strings.Join(found, ", "))
}

// ports checks that each port of a daemon is free, or held by the daemon itself.
func (in *inspection) ports(context.Context) []finding {
	var found []finding
	taken := map[string]listener{}
	for _, l := range in.settings.listeners() {
		if other, twice := taken[l.addr]; twice {
			found = append(found, one(bad, l.setting, "give one of them a different port", "%s of %s and %s of %s both use %s",
				other.setting, other.program, l.setting, l.program, l.addr)...)
			continue
		}
		taken[l.addr] = l
		found = append(found, in.port(l, "tcp")...)
		if l.udp {
			found = append(found, in.port(l, "udp")...)
		}
	}
	return append(found, in.loopbackOnly()...)
}

func (in *inspection) port(l listener, network string) []finding {
	what := fmt.Sprintf("%s %s of %s", network, l.addr, l.program)
	err := in.listen(network, l.addr)
	switch {
	case err == nil:
		return fine(l.setting, "%s is free", what)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return one(bad, l.setting, "set "+l.setting+" to an address of this machine", "%s: no interface has this address",
			what)
	case !errors.Is(err, syscall.EADDRINUSE):
		return one(warn, l.setting, "set "+l.setting+" to host:port of this machine", "%s: %v", what, err)
	}
	holder := in.holder(network, l.addr)
	switch {
	case holder == l.program:
		return fine(l.setting, "%s is held by it", what)
	case holder == controld || holder == noded:
		return one(bad, l.setting, "give one of them a different port", "%s is held by %s", what, holder)
	case holder != "":
		return one(bad, l.setting, "stop it, or set "+l.setting+" to another port", "%s is held by %s", what, holder)
	case len(in.processes(l.program)) > 0:
		return fine(l.setting, "%s is in use, and %s runs", what, l.program)
	}
	return one(warn, l.setting, "run this command as root to see by which program", "%s is in use", what)
}

// holder returns the program that holds a port of this machine, or "" if this user cannot see it.
func (in *inspection) holder(network, addr string) string {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return ""
	}
	sockets := map[string]bool{}
	for _, file := range []string{"/proc/net/" + network, "/proc/net/" + network + "6"} {
		for line := range strings.Lines(in.text(file)) {
			f := strings.Fields(line)
			if len(f) > 9 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && (network == "udp" || f[3] == "0A") {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	for _, path := range in.glob("/proc/[0-9]*/fd/*") {
		if link, err := os.Readlink(in.path(path)); err == nil && sockets[link] {
			return in.text("/proc/" + strings.Split(path, "/")[2] + "/comm")
		}
	}
	return ""
}

// loopbackOnly reports a daemon that other machines of its cluster cannot reach.
func (in *inspection) loopbackOnly() []finding {
	remote := slices.ContainsFunc(in.settings.peers(), func(addr string) bool { return !loopbackAddr(addr) })
	var found []finding
	for _, l := range in.settings.listeners() {
		if remote && loopbackAddr(l.addr) {
			found = append(found, one(bad, l.setting, "set "+l.setting+" to host:port of an interface",
				"%s of %s listens on %s only, but its cluster has other machines", l.setting, l.program, l.addr)...)
		}
	}
	return found
}

// loopbackAddr reports whether only this machine can reach an address.
func loopbackAddr(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// reachable checks that the machines named in the configuration resolve and accept connections.
func (in *inspection) reachable(ctx context.Context) []finding {
	var found []finding
	for _, addr := range in.settings.peers() {
		found = append(found, in.connect(ctx, "peer", addr, bad)...)
	}
	return found
}

// connect checks that a machine accepts connections at addr.
func (in *inspection) connect(ctx context.Context, check, addr string, severe level) []finding {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return one(severe, check, "write host:port", "%q is not an address", addr)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := in.lookup(ctx, host); err != nil {
		return one(severe, check, "correct the name, or add it to DNS or /etc/hosts", "%s does not resolve: %v", host, err)
	}
	conn, err := in.dial(ctx, "tcp", addr)
	if err != nil {
		return one(severe, check, "start the daemon there, and open the port in its firewall", "%s accepts no connection: "+
			"%v",
			addr, err)
	}
	conn.Close()
	return fine(check, "%s takes connections", addr)
}

// controllers checks that a controller answers, and that this machine reaches every controller.
func (in *inspection) controllers(ctx context.Context) []finding {
	const name = "controllers"
	k := in.cluster
	if k.err != nil {
		l, fix := note, "start the daemons, or set ROTA_ADDR"
		if k.named || len(in.settings.roles()) > 0 {
			l, fix = bad, "start the daemon of this machine; see its log, and: rota cluster"
		}
		return one(l, name, fix, "%v", k.err)
	}
	var found []finding
	if k.leader == "" {
		found = one(bad, name, "start a majority of the controllers", "cluster %s has no leader: nothing is submitted or "+
			"started",
			k.name)
	} else {
		found = fine(name, "cluster %s: %s, leader %s", k.name, show.Count(len(k.controllers), "controller", "controllers"),
			k.leader)
	}
	for _, c := range k.controllers {
		switch {
		case c.State == api.ControllerNoLog:
			found = append(found, one(bad, c.Name, "start a majority of the other controllers: their leader brings it up to "+
				"date",
				"controller %s has lost its log: it has no vote until a leader has brought it up to date", c.Name)...)
		case c.State == api.ControllerLearner:
			found = append(found, one(warn, c.Name, "wait; if it takes long, the leader's log says why",
				"controller %s is catching up: it has no vote yet", c.Name)...)
		case c.HTTP == "":
			found = append(found, one(warn, c.Name, "start it, or take its vote away: rota cluster remove "+c.Name,
				"the other controllers cannot reach controller %s", c.Name)...)
		case len(in.settings.roles()) > 0:
			found = append(found, in.connect(ctx, c.Name, hostPort(c.HTTP), warn)...)
			if in.settings.controller != nil && c.Raft != "" {
				found = append(found, in.connect(ctx, c.Name, c.Raft, warn)...)
			}
		}
	}
	return found
}
