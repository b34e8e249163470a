package doctor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"time"

	controlconfig "github.com/rota-hpc/rota/controld/config"

	"github.com/rota-hpc/rota/controld/api/pki"
	nodeconfig "github.com/rota-hpc/rota/noded/config"
)

// Names of the daemons.
const (
	controld = "rota-controld"
	noded    = "rota-noded"
)

// Defaults of the daemons' settings.
const (
	controldData  = "/var/lib/rota/controld"
	nodedData     = "/var/lib/rota/noded"
	defaultHTTP   = "127.0.0.1:7070"
	defaultRaft   = "127.0.0.1:7071"
	defaultGossip = "127.0.0.1:7072"
)

// settings is the configuration of this machine. A daemon without a configuration file and without
// the default data directory is nil.
type settings struct {
	controller *controlconfig.File
	node       *nodeconfig.File

	// unreadable configuration files, so that their settings are unknown
	controllerUnknown, nodeUnknown bool
}

// roles lists the roles of this machine.
func (s settings) roles() []string {
	roles := []string{}
	if s.controller != nil {
		roles = append(roles, string(pki.Controller))
	}
	switch {
	case s.login():
		roles = append(roles, string(pki.Login))
	case s.node != nil:
		roles = append(roles, string(pki.Node))
	}
	return roles
}

// login reports whether this machine is a login node.
func (s settings) login() bool { return s.node != nil && s.node.Login != nil && *s.node.Login }

// simulated reports whether the node simulates its GPUs.
func (s settings) simulated() bool {
	return s.node != nil && s.node.SimGPUs != nil && *s.node.SimGPUs > 0
}

// value returns a setting, or its default.
func value(p *string, def string) string {
	if p == nil {
		return def
	}
	return cmp.Or(*p, def)
}

// dataDir is the data directory of one daemon.
type dataDir struct {
	path       string
	controller bool
}

// dataDirs returns the data directories of all daemons of this machine.
func (s settings) dataDirs() []dataDir {
	var dirs []dataDir
	if s.controller != nil && !s.controllerUnknown {
		dirs = append(dirs, dataDir{value(s.controller.DataDir, controldData), true})
	}
	if s.node != nil && !s.nodeUnknown {
		dirs = append(dirs, dataDir{value(s.node.DataDir, nodedData), false})
	}
	return dirs
}

// listener is an address on which a daemon of this machine listens.
type listener struct {
	setting, addr string
	program       string
	udp           bool // listens on UDP as well as TCP
}

// listeners returns the addresses on which the daemons listen; a controller's if nothing is
// configured, because all else needs those ports.
func (s settings) listeners() []listener {
	var list []listener
	if c := s.controller; (c != nil || s.node == nil) && !s.controllerUnknown {
		if c == nil {
			c = &controlconfig.File{}
		}
		list = append(list, listener{"http", value(c.HTTP, defaultHTTP), controld, false},
			listener{"raft", value(c.Raft, defaultRaft), controld, false},
			listener{"gossip", value(c.Gossip, defaultGossip), controld, true})
	}
	if n := s.node; n != nil && !s.nodeUnknown {
		list = append(list, listener{"gossip", value(n.Gossip, defaultGossip), noded, true})
		if n.HTTP != nil {
			list = append(list, listener{"http", *n.HTTP, noded, false})
		}
	}
	return list
}

// peers returns the addresses of other machines' daemons that the configuration names.
func (s settings) peers() []string {
	var list []string
	if s.controller != nil {
		list = append(list, s.controller.Join...)
	}
	if s.node != nil {
		list = append(list, s.node.Join...)
		list = append(list, s.node.Controller...)
	}
	for i := range list {
		list[i] = strings.TrimPrefix(list[i], "https://")
	}
	return unique(list)
}

// readSettings reads the configuration of this machine. It keeps errors in the files for the check
// of the configuration.
func (in *inspection) readSettings(controlFile, nodeFile string) {
	in.found, in.settings = nil, settings{}
	text, err := in.read(controlFile)
	switch {
	case err == nil:
		file, err := controlconfig.Parse(controlFile, text)
		in.noteFile(controlFile, err)
		in.settings.controllerUnknown = err != nil
		in.settings.controller = cmp.Or(file, &controlconfig.File{})
	case !errors.Is(err, fs.ErrNotExist):
		in.settings.controller, in.settings.controllerUnknown = &controlconfig.File{}, true
		in.noteUnread(controlFile, err)
	case in.exists(controldData):
		in.settings.controller = &controlconfig.File{}
	}
	text, err = in.read(nodeFile)
	switch {
	case err == nil:
		file, err := nodeconfig.Parse(nodeFile, text)
		in.noteFile(nodeFile, err)
		in.settings.nodeUnknown = err != nil
		in.settings.node = cmp.Or(file, &nodeconfig.File{})
	case !errors.Is(err, fs.ErrNotExist):
		in.settings.node, in.settings.nodeUnknown = &nodeconfig.File{}, true
		in.noteUnread(nodeFile, err)
	case in.exists(nodedData):
		in.settings.node = &nodeconfig.File{}
	}
}

// noteFile keeps the errors of a configuration file.
func (in *inspection) noteFile(path string, err error) {
	if err != nil {
		in.found = append(in.found, one(bad, "file", "correct the file; the daemon does not start with it", "%v", err)...)
		return
	}
	in.found = append(in.found, fine("file", "%s has no unknown or invalid settings", path)...)
}

func (in *inspection) noteUnread(path string, err error) {
	in.found = append(in.found, one(note, "file", "run this command as root", "%s cannot be read: %v", path, err)...)
}

// configuration reports the errors that readSettings found.
func (in *inspection) configuration(context.Context) []finding {
	if len(in.settings.roles()) == 0 {
		return one(note, "file", "", "neither %s nor %s exists", controldFile, nodedFile)
	}
	if len(in.found) == 0 {
		return one(note, "file", "if the daemons have configuration files, name them with --controld-config and "+
			"--noded-config",
			"there is no configuration file; the defaults are checked")
	}
	found := in.found
	for _, l := range in.settings.listeners() {
		if _, _, err := net.SplitHostPort(l.addr); err != nil {
			found = append(found, one(bad, l.setting, "write host:port", "%s of %s is %q", l.setting, l.program, l.addr)...)
		}
	}
	return found
}

// renewal is the remaining lifetime at which a certificate should have been renewed.
const renewal = 10 * 24 * time.Hour

// certificates checks the certificates of this machine's daemons. Only root can read them.
func (in *inspection) certificates(context.Context) []finding {
	var found []finding
	clusters := map[string]string{}
	for _, dir := range in.settings.dataDirs() {
		if in.uid != 0 {
			return one(note, "certificate", "run this command as root", "only root can read certificates")
		}
		cred, err := pki.Load(in.path(pki.Dir(dir.path)))
		switch {
		case errors.Is(err, pki.ErrNoCredential):
			fix := "join with a token: rota cluster join-token on a machine of the cluster prints one"
			if dir.controller {
				fix = "make a cluster with rota-controld init; or " + fix
			}
			found = append(found, one(bad, "certificate", fix, "%s: this machine is not a member of a cluster", dir.path)...)
			continue
		case err != nil:
			found = append(found, one(bad, "certificate", "do what the message says, or join again with a new token",
				"%v", err)...)
			continue
		}
		clusters[cred.Member.Cluster] = dir.path
		found = append(found, in.lifetime(dir.path, cred)...)
		if id := in.cluster.id; id != "" && id != cred.Member.Cluster {
			found = append(found, one(bad, "cluster", "join the right cluster with a new token, or correct --addr or ROTA_ADDR",
				"the certificate in %s is for cluster %s, but the controllers belong to cluster %s", dir.path, cred.Member.Cluster,
				id)...)
		}
	}
	if len(clusters) > 1 {
		found = append(found, one(bad, "cluster", "let one of the daemons join the other's cluster",
			"the daemons of this machine are in different clusters")...)
	}
	return found
}

// lifetime checks the remaining lifetime of a certificate.
func (in *inspection) lifetime(dir string, cred *pki.Credential) []finding {
	left := cred.Expires().Sub(in.now())
	at := cred.Expires().UTC().Format(time.RFC3339)
	name := filepath.Join(dir, "tls/cert.pem")
	switch {
	case left <= 0:
		return one(bad, "certificate", "join again with a new token", "%s of %s ended at %s", name, cred.Member, at)
	case left < renewal:
		return one(warn, "certificate", "start the daemon, which renews it; its log says why it could not; once the "+
			"certificate has ended, the daemon must join again with a new token",
			"%s of %s ends at %s and should have been renewed", name, cred.Member, at)
	}
	return fine("certificate", "%s of %s is good until %s", name, cred.Member, at)
}

// nodeName returns the node's name in the cluster.
func (in *inspection) nodeName() string {
	host, _ := in.hostname() // no node is named ""
	if in.settings.node == nil {
		return host
	}
	return value(in.settings.node.Name, host)
}
