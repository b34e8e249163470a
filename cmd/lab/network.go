package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
)

// network is a bridge in a namespace of its own with a host on each port. No address of it exists
// outside these namespaces.
type network struct {
	hub   string
	hosts []*host
}

// host is one machine of the network.
type host struct {
	namespace string
	ip        string
	port      string // the bridge's end of its cable
}

// networks counts the networks of this process: several tests may each have one at a time.
var networks atomic.Int64

// newNetwork makes n hosts, 10.99.0.1 onwards.
func newNetwork(ctx context.Context, n int) (*network, error) {
	name := fmt.Sprintf("rota%d-%d", os.Getpid(), networks.Add(1))
	w := &network{hub: name + "-hub"}
	if err := ip(ctx, "netns", "add", w.hub); err != nil {
		return w, err
	}
	if err := w.in(ctx, w.hub, "link add br0 type bridge", "link set br0 up"); err != nil {
		return w, err
	}
	for i := range n {
		h := &host{namespace: fmt.Sprintf("%s-h%d", name, i+1), ip: fmt.Sprintf("10.99.0.%d", i+1),
			port: fmt.Sprintf("p%d", i+1)}
		w.hosts = append(w.hosts, h)
		if err := w.plug(ctx, h); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *network) plug(ctx context.Context, h *host) error {
	if err := ip(ctx, "netns", "add", h.namespace); err != nil {
		return err
	}
	if err := w.in(ctx, w.hub,
		"link add "+h.port+" type veth peer name eth0 netns "+h.namespace,
		"link set "+h.port+" master br0 up"); err != nil {
		return err
	}
	return w.in(ctx, h.namespace, "link set lo up", "addr add "+h.ip+"/24 dev eth0", "link set eth0 up")
}

// in runs ip commands inside a namespace.
func (w *network) in(ctx context.Context, namespace string, commands ...string) error {
	for _, c := range commands {
		if err := ip(ctx, append([]string{"-n", namespace}, strings.Fields(c)...)...); err != nil {
			return err
		}
	}
	return nil
}

func ip(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// close removes every namespace, and with them the bridge and the cables.
func (w *network) close() error {
	var errs []error
	for _, h := range w.hosts {
		errs = append(errs, ip(context.Background(), "netns", "del", h.namespace))
	}
	return errors.Join(append(errs, ip(context.Background(), "netns", "del", w.hub))...)
}

// Unplug cuts a daemon's machine off the network; Plug connects it again. Only with Namespaces.
func (c *Cluster) Unplug(ctx context.Context, d *Daemon) error {
	return c.nets.in(ctx, c.nets.hub, "link set "+d.host.port+" down")
}

// Plug undoes Unplug.
func (c *Cluster) Plug(ctx context.Context, d *Daemon) error {
	return c.nets.in(ctx, c.nets.hub, "link set "+d.host.port+" up")
}

// Cut drops what one daemon's machine sends to another's, in this direction only. Only with
// Namespaces.
func (c *Cluster) Cut(ctx context.Context, from, to *Daemon) error {
	return to.host.filter(ctx, "-A", from.host)
}

// Mend undoes Cut.
func (c *Cluster) Mend(ctx context.Context, from, to *Daemon) error {
	return to.host.filter(ctx, "-D", from.host)
}

// filter adds or deletes the rule that what comes from another host is dropped.
func (h *host) filter(ctx context.Context, action string, from *host) error {
	out, err := exec.CommandContext(ctx, "nsenter", "--net=/run/netns/"+h.namespace,
		"iptables", "-w", action, "INPUT", "-s", from.ip, "-j", "DROP").CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables %s INPUT in %s: %w: %s", action, h.namespace, err, strings.TrimSpace(string(out)))
	}
	return nil
}
